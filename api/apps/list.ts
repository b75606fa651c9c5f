import { Type } from 'typebox';
import { organizationsOf } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { forbidden, notFound } from '#common/http/rejection.ts';
import { isId } from '#common/ids.ts';
import { type AppRow, appAnswer, appColumns, listedAppExample, listedAppSchema } from './app.ts';

const count = 'SELECT count(*) AS total FROM apps WHERE organization_id = ANY ($1) AND deleted_at IS NULL';
const newest = `SELECT ${appColumns} FROM apps WHERE organization_id = ANY ($1) AND deleted_at IS NULL
  ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`;

export const listApps = route({
  method: 'GET',
  path: '/apps',
  operationId: 'listApps',
  caller: 'user',
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
    const mine = organizationsOf(caller);
    const asked = query.organization_id;
    if (asked !== undefined && !mine.includes(asked)) {
      const exists =
        isId('org', asked) &&
        (await db.query('SELECT FROM organizations WHERE id = $1 AND deleted_at IS NULL', [asked])).length > 0;
      return exists
        ? forbidden('You are not a member of this organization.')
        : notFound('There is no organization with this id.');
    }
    const page = pageOf(query);
    return tenancy.within(asked === undefined ? mine : [asked], async (tenant) => {
      const [counted] = await tenant.query<{ total: number }>(count);
      const rows = await tenant.query<AppRow>(newest, [page.limit, page.offset]);
      const apps = rows.map((row) => appAnswer(row, hosts, { api_key_preview: row.api_key_preview }));
      return listAnswer(apps, counted?.total ?? 0, page);
    });
  },
});
