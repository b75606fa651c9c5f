import { route } from '#api/route.ts';
import { templateAnswer, templateExample, templateParams, templateSchema, withTemplate } from './template.ts';

export const readTemplate = route({
  method: 'GET',
  path: '/utm-templates/{template_id}',
  operationId: 'getUtmTemplate',
  caller: 'user',
  scope: 'links:read',
  limit: 'general',
  tag: 'UTM templates',
  summary: 'Get a UTM template',
  params: templateParams,
  answers: { 200: { description: 'The template.', schema: templateSchema, example: templateExample } },
  handle: (deps, { caller, params }) =>
    withTemplate(deps, caller, { id: params.template_id, isChange: false }, async (_, template) => ({
      status: 200,
      body: templateAnswer(template),
    })),
});
