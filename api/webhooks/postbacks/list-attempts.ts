import { Type } from 'typebox';
import { listSchema, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { attemptsOf } from '#api/webhooks/list-messages.ts';
import { attemptExample, attemptSchema } from '#api/webhooks/message.ts';
import { postbackParams, withPostback } from './postback.ts';

export const listPostbackAttempts = route({
  method: 'GET',
  path: '/postbacks/{postback_id}/attempts',
  operationId: 'listPostbackAttempts',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'List the attempts of a postback',
  description: 'Attempts of the last 30 days, newest first. Their `url` is the template.',
  params: postbackParams,
  query: Type.Object({ ...pageQuery, message_id: Type.Optional(Type.String()) }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of attempts.',
      schema: listSchema(attemptSchema),
      example: { data: [attemptExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  handle: (deps, { caller, params, query }) =>
    withPostback(deps, caller, params.postback_id, true, (tenant, endpoint) =>
      attemptsOf(tenant, caller, endpoint, query),
    ),
});
