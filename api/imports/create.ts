import { Type } from 'typebox';
import { findOwner, refuseWrite, tenantOf } from '#api/access.ts';
import { changingRoute } from '#api/route.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import { hostOf } from '#common/links/web-address.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import {
  branchKeyContext,
  columnsSchema,
  type ImportOptions,
  type ImportRow,
  importAnswer,
  importColumns,
  importExample,
  importSchema,
  sourceSchema,
} from './import.ts';
import { type ImportSource, isImportField } from './import-columns.ts';
import { isDomainId } from './import-values.ts';

/** Maximum unfinished imports of one organization. */
const OPEN_MAX = 10;
const HOSTS_MAX = 20;

const insertion = `
  INSERT INTO imports (id, organization_id, app_id, source, options, created_by, created_at, updated_at, branch_key_ciphertext)
  SELECT $2, a.organization_id, a.id, $4, $5, $6, $7, $7, $8 FROM apps a
   WHERE a.organization_id = ANY ($1) AND a.id = $3 AND a.deleted_at IS NULL
     AND signpost_has_room('unfinished_imports', a.organization_id, ${OPEN_MAX})
  RETURNING ${importColumns}`;

export const createImport = changingRoute({
  method: 'POST',
  path: '/imports',
  operationId: 'createImport',
  caller: 'user',
  scope: 'import',
  limit: 'general',
  tag: 'Imports',
  summary: 'Create an import of links',
  description:
    'Next, upload the file with PUT /imports/{import_id}/parts/{number}, check it with POST /imports/{import_id}/check, review the report, and import it with POST /imports/{import_id}/confirm. No links are created before that.',
  body: Type.Object(
    {
      app_id: Type.Optional(Type.String({ description: 'Optional for a user with access to exactly one app.' })),
      source: sourceSchema,
      hosts: Type.Optional(
        Type.Array(Type.String({ minLength: 1, maxLength: 253 }), {
          maxItems: HOSTS_MAX,
          description:
            'Hosts in the file whose codes are taken over to the app’s host, or the ids that stand for them. Rows of any other host are unsupported.',
        }),
      ),
      columns: Type.Optional(columnsSchema),
      branch_key: Type.Optional(
        Type.String({
          pattern: '^key_(live|test)_[A-Za-z0-9]{1,100}$',
          examples: ['key_live_a1B2c3D4e5F6g7H8'],
          description:
            'For the source branch: the file lists the URLs of links, and the dry run reads each link from Branch’s API (GET /v1/url). The key is stored encrypted until the dry run ends, and is never returned.',
        }),
      ),
      upgrade_http: Type.Optional(
        Type.Boolean({
          description: 'Change http destinations to https. Otherwise rows with http destinations are unsupported.',
        }),
      ),
    },
    { additionalProperties: false, title: 'NewImport' },
  ),
  bodyFaults: ({ columns, hosts, source, branch_key }) => [
    ...(branch_key !== undefined && source !== 'branch'
      ? [{ field: 'branch_key', message: 'is only used with the source branch' }]
      : []),
    ...Object.keys(typeof columns === 'object' && columns !== null ? columns : {})
      .filter((name) => !isImportField(name))
      .map((name) => ({ field: `columns.${name}`, message: 'is not an import field' })),
    ...(Array.isArray(hosts) ? hosts : []).flatMap((host, at) =>
      typeof host === 'string' && hostOf(host) === null && !isDomainId(host)
        ? [{ field: `hosts[${at}]`, message: 'must be a host name such as go.example.com, or the number of a domain' }]
        : [],
    ),
  ],
  bodyExample: { app_id: importExample.app_id, source: 'bitly', columns: { title: 'Name' }, upgrade_http: true },
  answers: { 201: { description: 'The new import.', schema: importSchema, example: importExample } },
  async handle(deps, { caller, note, body }) {
    const owner = await findOwner(deps.tenancy, caller, body.app_id);
    if (owner instanceof Rejection) return owner;
    const denied = refuseWrite(caller, owner.organization_id);
    if (denied) return denied;
    const { source, hosts = [], columns = {}, upgrade_http = false, branch_key } = body;
    const names = [...new Set(hosts.map((host) => hostOf(host) ?? host))];
    const options = { hosts: names, columns, upgrade_http, reads_branch: branch_key !== undefined };
    const nowMs = deps.clock();
    const id = newId('imp', nowMs);
    const sealed = branch_key === undefined ? null : deps.importKeys.encrypt(branch_key, branchKeyContext(id));
    return deps.tenancy.within(tenantOf(caller, [owner.organization_id]), async (tenant) => {
      const given = { id, app_id: owner.app_id, source, options, sealed };
      const row = await insertImport(tenant, given, caller.user_id, nowMs);
      if (!row) return invalid('body', `the organization has ${OPEN_MAX} unfinished imports: delete one first`);
      return { status: 201, body: importAnswer(row), noted: await note(tenant, row) };
    });
  },
});

interface GivenImport {
  readonly id: string;
  readonly app_id: string;
  readonly source: ImportSource;
  readonly options: ImportOptions;
  /** The encrypted key of Branch. */
  readonly sealed: string | null;
}

/** Undefined if the organization has too many unfinished imports. */
export async function insertImport(
  tenant: TenantQueries,
  { id, app_id, source, options, sealed }: GivenImport,
  createdBy: string,
  nowMs: number,
): Promise<ImportRow | undefined> {
  const values = [source, JSON.stringify(options), createdBy, new Date(nowMs), sealed];
  const [row] = await tenant.query<ImportRow>(insertion, [id, app_id, ...values]);
  return row;
}
