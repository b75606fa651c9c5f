import { route } from '#api/route.ts';
import { viewAnswer, viewExample, viewParams, viewSchema, withView } from './view.ts';

export const readView = route({
  method: 'GET',
  path: '/views/{view_id}',
  operationId: 'getView',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Views',
  summary: 'Get a saved view',
  params: viewParams,
  answers: { 200: { description: 'The view.', schema: viewSchema, example: viewExample } },
  handle: (deps, { caller, params }) =>
    withView(deps, caller, { id: params.view_id, isChange: false }, async (_, view) => ({
      status: 200,
      body: viewAnswer(view),
    })),
});
