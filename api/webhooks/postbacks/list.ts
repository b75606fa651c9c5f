import { Type } from 'typebox';
import { organizationsOf, refuseOrganization, tenantOf } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { type PostbackRow, postbackAnswer, postbackColumns, postbackExample, postbackSchema } from './postback.ts';

const known = 'FROM webhook_endpoints WHERE organization_id = ANY ($1) AND postback_method IS NOT NULL';
const count = `SELECT count(*) AS total ${known}`;
const newest = `SELECT ${postbackColumns} ${known} ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`;

export const listPostbacks = route({
  method: 'GET',
  path: '/postbacks',
  operationId: 'listPostbacks',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'List postbacks',
  query: Type.Object({ ...pageQuery, organization_id: Type.Optional(Type.String()) }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of postbacks, newest first.',
      schema: listSchema(postbackSchema),
      example: { data: [postbackExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  async handle({ db, tenancy }, { caller, query }) {
    const asked = query.organization_id;
    const refused = asked === undefined ? null : await refuseOrganization(db, caller, asked);
    if (refused) return refused;
    const page = pageOf(query);
    return tenancy.within(tenantOf(caller, asked === undefined ? organizationsOf(caller) : [asked]), async (tenant) => {
      const [counted] = await tenant.query<{ total: number }>(count);
      const rows = await tenant.query<PostbackRow>(newest, [page.limit, page.offset]);
      return listAnswer(
        rows.map((row) => postbackAnswer(caller, row)),
        counted?.total ?? 0,
        page,
      );
    });
  },
});
