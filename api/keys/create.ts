import { Type } from 'typebox';
import { absent, chooseOrganization, refuseManaging } from '#api/access.ts';
import type { Note, Noted } from '#api/audit-trail.ts';
import type { ApiDeps } from '#api/deps.ts';
import { changingRoute, type UserCaller } from '#api/route.ts';
import { apiKeyPreview, newKey } from '#common/api-key.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import type { KeyScope } from '#common/http/route.ts';
import { newId } from '#common/ids.ts';
import { nullable } from '#common/links/link-fields.ts';
import { isStorableTime } from '#common/storable-time.ts';
import { allApps, type TenantQueries } from '#common/stores/tenancy.ts';
import {
  newServerKeySchema,
  type ServerKeyRow,
  scopesSchema,
  serverKeyAnswer,
  serverKeyColumns,
  serverKeyExample,
} from './server-key.ts';
import { hashOfServerKey } from './server-keys.ts';

const KEYS_MAX = 100;
const APPS_MAX = 100;

const { id: _, key_preview: __, created_by: ___, created_at: ____, last_used_at: _____, ...sent } = serverKeyExample;

export const createKey = changingRoute({
  method: 'POST',
  path: '/keys',
  operationId: 'createServerKey',
  showsSecret: true,
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Server keys',
  summary: 'Create a server key',
  description:
    'For programs; send the key as Authorization: Bearer. A key belongs to the organization and stays valid until it expires or an owner deletes it. Only owners can create keys.',
  body: Type.Object(
    {
      organization_id: Type.Optional(
        Type.String({ description: 'Optional for a user who belongs to exactly one organization.' }),
      ),
      name: Type.String({
        minLength: 1,
        maxLength: 100,
        format: 'visible',
        description: 'A name that says what uses the key.',
      }),
      scopes: scopesSchema,
      app_ids: Type.Optional(
        nullable(
          Type.Array(Type.String(), {
            minItems: 1,
            maxItems: APPS_MAX,
            uniqueItems: true,
            description: 'Limits the key to these apps, their links and their statistics. Default: all apps.',
          }),
        ),
      ),
      expires_at: Type.Optional(
        nullable(Type.String({ format: 'date-time', description: 'Default: the key does not expire.' })),
      ),
    },
    { additionalProperties: false, title: 'NewServerKey' },
  ),
  bodyExample: sent,
  answers: {
    201: {
      description: 'The new key.',
      schema: newServerKeySchema,
      example: { ...serverKeyExample, key: 'sk_exampleexampleexampleexampleexample0000' },
    },
  },
  async handle(deps, { caller, note, body }) {
    const { expires_at } = body;
    if (typeof expires_at === 'string' && !(isStorableTime(expires_at) && Date.parse(expires_at) > deps.clock())) {
      return invalid('expires_at', 'must be a time in the future');
    }
    const organizationId = await chooseOrganization(deps.db, caller, body.organization_id);
    if (organizationId instanceof Rejection) return organizationId;
    const denied = refuseManaging(caller, organizationId);
    if (denied) return denied;
    const key = newKey('sk_');
    const row = await insert({ ...deps, note }, caller, organizationId, key, body);
    if (row instanceof Rejection) return row;
    return { status: 201, body: { ...serverKeyAnswer(row.row), key }, noted: row.noted };
  },
});

interface Wanted {
  readonly name: string;
  readonly scopes: readonly KeyScope[];
  readonly app_ids?: readonly string[] | null;
  readonly expires_at?: string | null;
}

const insertion = `
  INSERT INTO server_keys (id, organization_id, name, key_hash, key_preview, scopes, app_ids, created_by, created_at, expires_at)
  SELECT $2, o.id, $3, $4, $5, $6, $7, $8, $9, $10 FROM unnest($1::text[]) AS o (id)
   WHERE signpost_has_room('server_keys', o.id, ${KEYS_MAX})
  RETURNING ${serverKeyColumns}`;

function insert(
  { tenancy, clock, note }: ApiDeps & { readonly note: Note },
  caller: UserCaller,
  organizationId: string,
  key: string,
  wanted: Wanted,
): Promise<{ readonly row: ServerKeyRow; readonly noted: Noted } | Rejection> {
  return tenancy.within(allApps([organizationId]), async (tenant) => {
    const unknown = await refuseApps(tenant, wanted.app_ids ?? []);
    if (unknown) return unknown;
    const nowMs = clock();
    const { name, scopes, app_ids = null, expires_at } = wanted;
    const [row] = await tenant.query<ServerKeyRow>(insertion, [
      newId('key', nowMs),
      name.trim(),
      hashOfServerKey(key),
      apiKeyPreview(key),
      scopes,
      app_ids,
      caller.user_id,
      new Date(nowMs),
      typeof expires_at === 'string' ? new Date(expires_at) : null,
    ]);
    if (!row) return invalid('body', `the organization has ${KEYS_MAX} keys: delete one first`);
    return { row, noted: await note(tenant, row) };
  });
}

async function refuseApps(tenant: TenantQueries, appIds: readonly string[]): Promise<Rejection | null> {
  if (appIds.length === 0) return null;
  const sql = 'SELECT id FROM apps WHERE organization_id = ANY ($1) AND id = ANY ($2) AND deleted_at IS NULL';
  const known = new Set((await tenant.query<{ id: string }>(sql, [appIds])).map(({ id }) => id));
  const missing = appIds.find((id) => !known.has(id));
  return missing === undefined ? null : absent(tenant, 'app', missing);
}
