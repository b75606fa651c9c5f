import { Type } from 'typebox';
import { readableOrganizations, refuseApp, tenantOf } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { type TemplateRow, templateAnswer, templateColumns, templateExample, templateSchema } from './template.ts';

/** Those that links of the app can name: its own, and those of its organization. */
const matching = `FROM utm_templates t WHERE organization_id = ANY ($1) AND ($2::text IS NULL OR app_id = $2
  OR app_id IS NULL AND organization_id = (SELECT a.organization_id FROM apps a WHERE a.id = $2))`;
const count = `SELECT count(*)::integer AS total ${matching}`;
const page = `SELECT ${templateColumns} ${matching} ORDER BY name, id LIMIT $3 OFFSET $4`;

export const listTemplates = route({
  method: 'GET',
  path: '/utm-templates',
  operationId: 'listUtmTemplates',
  caller: 'user',
  scope: 'links:read',
  limit: 'general',
  tag: 'UTM templates',
  summary: 'List UTM templates',
  description: 'By name.',
  query: Type.Object(
    {
      ...pageQuery,
      organization_id: Type.Optional(Type.String()),
      app_id: Type.Optional(
        Type.String({
          description: 'Templates available to links of this app: the app’s own and those of the whole organization.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  answers: {
    200: {
      description: 'A page of templates.',
      schema: listSchema(templateSchema),
      example: { data: [templateExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  async handle({ db, tenancy }, { caller, query }) {
    const organizations = await readableOrganizations(db, caller, query.organization_id);
    if (organizations instanceof Rejection) return organizations;
    const { app_id = null } = query;
    const { limit, offset } = pageOf(query);
    return tenancy.within(tenantOf(caller, organizations), async (tenant) => {
      const refused = await refuseApp(tenant, query.app_id);
      if (refused) return refused;
      const [counted] = await tenant.query<{ total: number }>(count, [app_id]);
      const rows = await tenant.query<TemplateRow>(page, [app_id, limit, offset]);
      return listAnswer(rows.map(templateAnswer), counted?.total ?? 0, { limit, offset });
    });
  },
});
