import { route } from '#api/route.ts';
import { postbackAnswer, postbackExample, postbackParams, postbackSchema, withPostback } from './postback.ts';

export const readPostback = route({
  method: 'GET',
  path: '/postbacks/{postback_id}',
  operationId: 'getPostback',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Get a postback',
  params: postbackParams,
  answers: { 200: { description: 'The postback.', schema: postbackSchema, example: postbackExample } },
  handle: (deps, { caller, params }) =>
    withPostback(deps, caller, params.postback_id, true, async (_, postback) => ({
      status: 200,
      body: postbackAnswer(caller, postback),
    })),
});
