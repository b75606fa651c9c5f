import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { endpointExample, endpointParams, withEndpoint } from './endpoint.ts';

export const deleteWebhook = changingRoute({
  method: 'DELETE',
  path: '/webhooks/{webhook_id}',
  operationId: 'deleteWebhook',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Delete a webhook',
  description: 'Also deletes its messages and attempts. An attempt in progress still completes.',
  params: endpointParams,
  answers: {
    200: {
      description: 'The webhook is deleted.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: endpointExample.id, deleted: true },
    },
  },
  handle: (deps, { caller, note, params }) =>
    withEndpoint(deps, caller, params.webhook_id, false, async (tenant, endpoint) => {
      await tenant.query('DELETE FROM webhook_endpoints WHERE organization_id = ANY ($1) AND id = $2', [
        params.webhook_id,
      ]);
      return { status: 200, body: { id: params.webhook_id, deleted: true }, noted: await note(tenant, endpoint) };
    }),
});
