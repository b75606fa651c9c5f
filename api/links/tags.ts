import { Type } from 'typebox';
import { readableOrganizations, refuseApp, tenantOf } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';

const tagged = `FROM link_tags t JOIN apps a ON a.id = t.app_id
  WHERE t.organization_id = ANY ($1) AND a.deleted_at IS NULL AND ($2::text IS NULL OR t.app_id = $2)`;
const count = `SELECT count(DISTINCT t.tag) AS total ${tagged}`;
const page = `SELECT t.tag, count(*)::integer AS links ${tagged} GROUP BY t.tag ORDER BY t.tag LIMIT $3 OFFSET $4`;

export const listTags = route({
  method: 'GET',
  path: '/tags',
  operationId: 'listTags',
  caller: 'user',
  scope: 'links:read',
  limit: 'general',
  tag: 'Links',
  summary: 'List the tags of links',
  description: 'In alphabetical order, each with its number of links, including archived ones.',
  query: Type.Object(
    {
      ...pageQuery,
      app_id: Type.Optional(Type.String()),
      organization_id: Type.Optional(Type.String({ description: 'Default: all of your organizations.' })),
    },
    { additionalProperties: false },
  ),
  answers: {
    200: {
      description: 'A page of tags.',
      schema: listSchema(Type.Object({ tag: Type.String(), links: Type.Integer() }, { title: 'Tag' })),
      example: { data: [{ tag: 'sale', links: 12 }], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  handle: async ({ db, tenancy }, { caller, query }) => {
    const organizations = await readableOrganizations(db, caller, query.organization_id);
    if (organizations instanceof Rejection) return organizations;
    return tenancy.within(tenantOf(caller, organizations), async (tenant) => {
      const refused = await refuseApp(tenant, query.app_id);
      if (refused) return refused;
      const { limit, offset } = pageOf(query);
      const appId = query.app_id ?? null;
      const [counted] = await tenant.query<{ total: number }>(count, [appId]);
      const tags = await tenant.query<{ tag: string; links: number }>(page, [appId, limit, offset]);
      return listAnswer(tags, counted?.total ?? 0, { limit, offset });
    });
  },
});
