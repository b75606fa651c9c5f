import { Type } from 'typebox';
import { refuseApp, refuseWrite, tenantOf } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { changingRoute, route } from '#api/route.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import {
  findImport,
  type ImportRow,
  importAnswer,
  importColumns,
  importExample,
  importParams,
  importSchema,
  workingStates,
} from './import.ts';

export const readImport = route({
  method: 'GET',
  path: '/imports/{import_id}',
  operationId: 'getImport',
  caller: 'user',
  scope: 'import',
  limit: 'general',
  tag: 'Imports',
  summary: 'Get one import with its progress',
  params: importParams,
  answers: { 200: { description: 'The import.', schema: importSchema, example: importExample } },
  handle: (deps, { caller, params }) =>
    deps.tenancy.within(tenantOf(caller), async (tenant) => {
      const row = await findImport(deps, tenant, params.import_id);
      return row instanceof Rejection ? row : { status: 200, body: importAnswer(row) };
    }),
});

const from = 'FROM imports WHERE organization_id = ANY ($1) AND ($2::text IS NULL OR app_id = $2)';

export const listImports = route({
  method: 'GET',
  path: '/imports',
  operationId: 'listImports',
  caller: 'user',
  scope: 'import',
  limit: 'general',
  tag: 'Imports',
  summary: 'List imports',
  description: 'Newest first. Finished ones are kept for 90 days, others for 7 days after their last change.',
  query: Type.Object({ ...pageQuery, app_id: Type.Optional(Type.String()) }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of imports.',
      schema: listSchema(importSchema),
      example: { data: [importExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  handle: ({ tenancy }, { caller, query }) =>
    tenancy.within(tenantOf(caller), async (tenant) => {
      const refused = await refuseApp(tenant, query.app_id);
      if (refused) return refused;
      const { limit, offset } = pageOf(query);
      const appId = query.app_id ?? null;
      const [counted] = await tenant.query<{ total: number }>(`SELECT count(*) AS total ${from}`, [appId]);
      const rows = await tenant.query<ImportRow>(
        `SELECT ${importColumns} ${from} ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $4`,
        [appId, limit, offset],
      );
      return listAnswer(rows.map(importAnswer), counted?.total ?? 0, { limit, offset });
    }),
});

export const deleteImport = changingRoute({
  method: 'DELETE',
  path: '/imports/{import_id}',
  operationId: 'deleteImport',
  caller: 'user',
  scope: 'import',
  limit: 'general',
  tag: 'Imports',
  summary: 'Delete an import and its report',
  description:
    'Links that it created stay, and the import can no longer be undone. Not possible while the import is running.',
  params: importParams,
  answers: {
    200: {
      description: 'The import is deleted.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: importExample.id, deleted: true },
    },
  },
  handle: (deps, { caller, note, params }) =>
    deps.tenancy.within(tenantOf(caller), async (tenant) => {
      const row = await findImport(deps, tenant, params.import_id, true);
      if (row instanceof Rejection) return row;
      const denied = refuseWrite(caller, row.organization_id);
      if (denied) return denied;
      if (workingStates.includes(row.state))
        return invalid('import_id', `is an import whose state is ${row.state}: wait until it has finished`);
      await tenant.query('DELETE FROM imports WHERE organization_id = ANY ($1) AND id = $2', [row.id]);
      return { status: 200, body: { id: row.id, deleted: true }, noted: await note(tenant, row) };
    }),
});
