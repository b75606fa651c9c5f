import { Type } from 'typebox';
import { organizationsOf, refuseLimitedKey, refuseOrganization, tenantOf } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { type ViewRow, viewAnswer, viewColumns, viewExample, viewSchema } from './view.ts';

const count = 'SELECT count(*)::integer AS total FROM saved_views WHERE organization_id = ANY ($1)';
const page = `SELECT ${viewColumns} FROM saved_views WHERE organization_id = ANY ($1) ORDER BY name, id LIMIT $2 OFFSET $3`;

export const listViews = route({
  method: 'GET',
  path: '/views',
  operationId: 'listViews',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Views',
  summary: 'List saved views',
  description: 'By name.',
  query: Type.Object({ ...pageQuery, organization_id: Type.Optional(Type.String()) }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of views.',
      schema: listSchema(viewSchema),
      example: { data: [viewExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  async handle({ db, tenancy }, { caller, query }) {
    const { organization_id } = query;
    const denied =
      refuseLimitedKey(caller, 'Views') ??
      (organization_id === undefined ? null : await refuseOrganization(db, caller, organization_id));
    if (denied) return denied;
    const wanted = organization_id === undefined ? organizationsOf(caller) : [organization_id];
    const { limit, offset } = pageOf(query);
    return tenancy.within(tenantOf(caller, wanted), async (tenant) => {
      const [counted] = await tenant.query<{ total: number }>(count);
      const rows = await tenant.query<ViewRow>(page, [limit, offset]);
      return listAnswer(rows.map(viewAnswer), counted?.total ?? 0, { limit, offset });
    });
  },
});
