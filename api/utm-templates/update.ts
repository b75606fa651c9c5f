import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { UTM_FIELDS, utmFrom } from '#common/campaign-fields.ts';
import { Rejection } from '#common/http/rejection.ts';
import {
  lockTemplate,
  refuseEmpty,
  refuseScope,
  storedTemplate,
  type TemplateRow,
  templateAnswer,
  templateColumns,
  templateExample,
  templateFields,
  templateParams,
  templateSchema,
  withTemplate,
  withUniqueName,
} from './template.ts';

const change = `UPDATE utm_templates SET updated_at = $3, app_id = $4, name = $5, ${UTM_FIELDS.map((name, at) => `${name} = $${at + 6}`).join(', ')}
  WHERE organization_id = ANY ($1) AND id = $2 RETURNING ${templateColumns}`;

const { app_id, name, ...utm } = templateFields;

export const updateTemplate = changingRoute({
  method: 'PATCH',
  path: '/utm-templates/{template_id}',
  operationId: 'updateUtmTemplate',
  caller: 'user',
  scope: 'links:write',
  limit: 'general',
  tag: 'UTM templates',
  summary: 'Update a UTM template',
  description: 'Omitted fields keep their value; null clears a parameter. Existing links do not change.',
  params: templateParams,
  body: Type.Object(
    {
      app_id: Type.Optional(app_id),
      name: Type.Optional(name),
      ...utmFrom((field) => Type.Optional(utm[field])),
    },
    { additionalProperties: false, minProperties: 1, title: 'UtmTemplateChanges' },
  ),
  bodyExample: { utm_medium: 'email' },
  answers: { 200: { description: 'The updated template.', schema: templateSchema, example: templateExample } },
  handle: (deps, { caller, note, params, body }) =>
    withUniqueName(() =>
      withTemplate(deps, caller, { id: params.template_id, isChange: true }, async (tenant, { id }) => {
        const refused = body.app_id === undefined ? null : await refuseScope(tenant, caller, body.app_id);
        if (refused) return refused;
        const before = await lockTemplate(tenant, id);
        if (before instanceof Rejection) return before;
        const after = storedTemplate({ ...before, ...body });
        const empty = refuseEmpty(after);
        if (empty) return empty;
        const texts = UTM_FIELDS.map((field) => after[field]);
        const values = [id, new Date(deps.clock()), after.app_id, after.name, ...texts];
        const [row] = await tenant.query<TemplateRow>(change, values);
        return { status: 200, body: templateAnswer(row ?? before), noted: await note(tenant, before) };
      }),
    ),
});
