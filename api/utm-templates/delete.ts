import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { templateExample, templateParams, withTemplate } from './template.ts';

export const deleteTemplate = changingRoute({
  method: 'DELETE',
  path: '/utm-templates/{template_id}',
  operationId: 'deleteUtmTemplate',
  caller: 'user',
  scope: 'links:write',
  limit: 'general',
  tag: 'UTM templates',
  summary: 'Delete a UTM template',
  description: 'Existing links do not change.',
  params: templateParams,
  answers: {
    200: {
      description: 'The template is deleted.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: templateExample.id, deleted: true },
    },
  },
  handle: (deps, { caller, note, params }) =>
    withTemplate(deps, caller, { id: params.template_id, isChange: true }, async (tenant, template) => {
      const { id } = template;
      await tenant.query('DELETE FROM utm_templates WHERE organization_id = ANY ($1) AND id = $2', [id]);
      return { status: 200, body: { id, deleted: true }, noted: await note(tenant, template) };
    }),
});
