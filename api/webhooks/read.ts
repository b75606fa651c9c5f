import { route } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { endpointAnswer, endpointExample, endpointParams, endpointSchema, findEndpoint } from './endpoint.ts';

export const readWebhook = route({
  method: 'GET',
  path: '/webhooks/{webhook_id}',
  operationId: 'getWebhook',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Get a webhook',
  params: endpointParams,
  answers: { 200: { description: 'The webhook.', schema: endpointSchema, example: endpointExample } },
  async handle(deps, { caller, params }) {
    const endpoint = await findEndpoint(deps, caller, params.webhook_id, true);
    return endpoint instanceof Rejection
      ? endpoint
      : { status: 200, body: endpointAnswer(caller, endpoint, deps.clock()) };
  },
});
