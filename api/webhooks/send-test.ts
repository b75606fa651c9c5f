import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { invalid } from '#common/http/rejection.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import { TEST_EVENT } from '#common/webhooks/webhook-events.ts';
import { endpointParams, withEndpoint } from './endpoint.ts';
import { messageExample } from './message.ts';

const insertion = `
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
  SELECT signpost_webhook_message_id(id, gen_random_uuid()::text), id, organization_id, '${TEST_EVENT}', now(), $3
    FROM webhook_endpoints WHERE organization_id = ANY ($1) AND id = $2 RETURNING id`;

export const testWebhook = changingRoute({
  method: 'POST',
  path: '/webhooks/{webhook_id}/test',
  operationId: 'testWebhook',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Send a test message',
  description: `Of the type ${TEST_EVENT}, within seconds. How that went is in the list of attempts.`,
  params: endpointParams,
  answers: {
    202: {
      description: 'The message will be sent.',
      schema: Type.Object({ message_id: Type.String() }),
      example: { message_id: messageExample.id },
    },
  },
  handle: (deps, { caller, note, params }) =>
    withEndpoint(deps, caller, params.webhook_id, false, async (tenant, endpoint) => {
      if (endpoint.disabled_at !== null) return invalid('id', 'the webhook is disabled: enable it first');
      const message_id = await testMessage(tenant, endpoint.id);
      return { status: 202, body: { message_id }, noted: await note(tenant, endpoint) };
    }),
});

/** @returns the id of the message. */
export async function testMessage(tenant: TenantQueries, endpointId: string): Promise<string | undefined> {
  const values = [endpointId, JSON.stringify({ endpoint_id: endpointId })];
  const [row] = await tenant.query<{ id: string }>(insertion, values);
  return row?.id;
}
