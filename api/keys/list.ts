import { Type } from 'typebox';
import { managedOrganizations } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { allApps } from '#common/stores/tenancy.ts';
import {
  type ServerKeyRow,
  serverKeyAnswer,
  serverKeyColumns,
  serverKeyExample,
  serverKeySchema,
} from './server-key.ts';

const count = 'SELECT count(*) AS total FROM server_keys WHERE organization_id = ANY ($1)';
const newest = `SELECT ${serverKeyColumns} FROM server_keys WHERE organization_id = ANY ($1)
  ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`;

export const listKeys = route({
  method: 'GET',
  path: '/keys',
  operationId: 'listServerKeys',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Server keys',
  summary: 'List server keys',
  description: 'Keys of the organizations that you own, including expired ones.',
  query: Type.Object({ ...pageQuery, organization_id: Type.Optional(Type.String()) }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of keys.',
      schema: listSchema(serverKeySchema),
      example: { data: [serverKeyExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  async handle({ db, tenancy }, { caller, query }) {
    const owned = await managedOrganizations(db, caller, query.organization_id);
    if (owned instanceof Rejection) return owned;
    const page = pageOf(query);
    return tenancy.within(allApps(owned), async (tenant) => {
      const [counted] = await tenant.query<{ total: number }>(count);
      const rows = await tenant.query<ServerKeyRow>(newest, [page.limit, page.offset]);
      return listAnswer(rows.map(serverKeyAnswer), counted?.total ?? 0, page);
    });
  },
});
