import { Type } from 'typebox';
import { organizationsOf, refuseOrganization, tenantOf } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { type EndpointRow, endpointAnswer, endpointColumns, endpointExample, endpointSchema } from './endpoint.ts';

const count =
  'SELECT count(*) AS total FROM webhook_endpoints WHERE organization_id = ANY ($1) AND postback_method IS NULL';
const newest = `SELECT ${endpointColumns} FROM webhook_endpoints WHERE organization_id = ANY ($1) AND postback_method IS NULL
  ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`;

export const listWebhooks = route({
  method: 'GET',
  path: '/webhooks',
  operationId: 'listWebhooks',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'List webhooks',
  query: Type.Object({ ...pageQuery, organization_id: Type.Optional(Type.String()) }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of webhooks, newest first.',
      schema: listSchema(endpointSchema),
      example: { data: [endpointExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  async handle({ db, tenancy, clock }, { caller, query }) {
    const asked = query.organization_id;
    const refused = asked === undefined ? null : await refuseOrganization(db, caller, asked);
    if (refused) return refused;
    const page = pageOf(query);
    return tenancy.within(tenantOf(caller, asked === undefined ? organizationsOf(caller) : [asked]), async (tenant) => {
      const [counted] = await tenant.query<{ total: number }>(count);
      const rows = await tenant.query<EndpointRow>(newest, [page.limit, page.offset]);
      return listAnswer(
        rows.map((row) => endpointAnswer(caller, row, clock())),
        counted?.total ?? 0,
        page,
      );
    });
  },
});
