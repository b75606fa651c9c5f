import { Type } from 'typebox';
import { refuseOrganization, tenantOf } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { type AppRow, appAnswer, appColumns, listedAppExample, listedAppSchema } from './app.ts';

const count = 'SELECT count(*) AS total FROM apps WHERE organization_id = ANY ($1) AND deleted_at IS NULL';
const newest = `SELECT ${appColumns} FROM apps WHERE organization_id = ANY ($1) AND deleted_at IS NULL
  ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`;

export const listApps = route({
  method: 'GET',
  path: '/apps',
  operationId: 'listApps',
  caller: 'user',
  scope: 'apps:read',
  limit: 'general',
  tag: 'Apps',
  summary: 'List apps',
  query: Type.Object({ ...pageQuery, organization_id: Type.Optional(Type.String()) }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of apps. API keys are masked.',
      schema: listSchema(listedAppSchema),
      example: { data: [listedAppExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  handle: async ({ db, tenancy, hosts }, { caller, query }) => {
    const asked = query.organization_id;
    const refused = asked === undefined ? null : await refuseOrganization(db, caller, asked);
    if (refused) return refused;
    const page = pageOf(query);
    return tenancy.within(tenantOf(caller, asked === undefined ? undefined : [asked]), async (tenant) => {
      const [counted] = await tenant.query<{ total: number }>(count);
      const rows = await tenant.query<AppRow>(newest, [page.limit, page.offset]);
      const apps = rows.map((row) => {
        const { pages: _, ...app } = appAnswer(row, hosts, { api_key_preview: row.api_key_preview });
        return app;
      });
      return listAnswer(apps, counted?.total ?? 0, page);
    });
  },
});
