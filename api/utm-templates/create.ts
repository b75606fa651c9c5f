import { Type } from 'typebox';
import { chooseOrganization, findOwner, refuseWrite, tenantOf } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { changingRoute, type UserCaller } from '#api/route.ts';
import { UTM_FIELDS, utmFrom } from '#common/campaign-fields.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import {
  refuseEmpty,
  refuseScope,
  storedTemplate,
  type TemplateRow,
  templateAnswer,
  templateColumns,
  templateExample,
  templateFields,
  templateSchema,
  withUniqueName,
} from './template.ts';

const TEMPLATES_MAX = 100;

const insertion = `
  INSERT INTO utm_templates (id, organization_id, app_id, name, ${UTM_FIELDS.join(', ')}, created_by, created_at, updated_at)
  SELECT $2, o.id, $3, $4, ${UTM_FIELDS.map((_, at) => `$${at + 7}`).join(', ')}, $5, $6, $6 FROM unnest($1::text[]) AS o (id)
   WHERE signpost_has_room('utm_templates', o.id, ${TEMPLATES_MAX})
  RETURNING ${templateColumns}`;

const { app_id, name, ...utm } = templateFields;

export const createTemplate = changingRoute({
  method: 'POST',
  path: '/utm-templates',
  operationId: 'createUtmTemplate',
  caller: 'user',
  scope: 'links:write',
  limit: 'general',
  tag: 'UTM templates',
  summary: 'Create a UTM template',
  description: `Links created with this utm_template_id get the template’s parameters. At least one parameter is required. The number of templates of an organization is limited to ${TEMPLATES_MAX}.`,
  body: Type.Object(
    {
      organization_id: Type.Optional(
        Type.String({
          description: 'Optional with app_id, and for a caller who belongs to exactly one organization.',
        }),
      ),
      app_id: Type.Optional(app_id),
      name,
      ...utmFrom((field) => Type.Optional(utm[field])),
    },
    { additionalProperties: false, title: 'NewUtmTemplate' },
  ),
  bodyExample: { name: 'Newsletter', utm_source: 'newsletter', utm_medium: 'email' },
  answers: { 201: { description: 'The new template.', schema: templateSchema, example: templateExample } },
  async handle(deps, { caller, note, body }) {
    const organization = await organizationOf(deps, caller, body);
    if (organization instanceof Rejection) return organization;
    const denied = refuseWrite(caller, organization);
    if (denied) return denied;
    const { app_id = null, name } = body;
    const template = storedTemplate({ app_id, name, ...utmFrom((field) => body[field] ?? null) });
    const empty = refuseEmpty(template);
    if (empty) return empty;
    const nowMs = deps.clock();
    // A server key is not a user.
    const creator = caller.key ? null : caller.user_id;
    const texts = UTM_FIELDS.map((field) => template[field]);
    const values = [newId('utm', nowMs), app_id, template.name, creator, new Date(nowMs), ...texts];
    return withUniqueName(() =>
      deps.tenancy.within(tenantOf(caller, [organization]), async (tenant) => {
        const refused = await refuseScope(tenant, caller, app_id);
        if (refused) return refused;
        const [row] = await tenant.query<TemplateRow>(insertion, values);
        if (!row) return invalid('body', `the organization has ${TEMPLATES_MAX} UTM templates: delete one first`);
        return { status: 201, body: templateAnswer(row), noted: await note(tenant, row) };
      }),
    );
  },
});

/** The requested organization, or that of the app, or the caller's only one. */
async function organizationOf(
  { db, tenancy }: ApiDeps,
  caller: UserCaller,
  { organization_id, app_id }: { readonly organization_id?: string; readonly app_id?: string | null },
): Promise<string | Rejection> {
  if (organization_id !== undefined || !app_id) return chooseOrganization(db, caller, organization_id);
  const owner = await findOwner(tenancy, caller, app_id);
  return owner instanceof Rejection ? owner : owner.organization_id;
}
