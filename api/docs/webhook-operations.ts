/** The requests that webhooks send, for the document's `webhooks`. Payloads are generated from the catalogue. */
import { Type } from 'typebox';
import { PAYLOAD_VERSION, type WebhookEvent, webhookEvents } from '#common/webhooks/webhook-events.ts';

const header = (name: string, description: string, example: string) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
  example,
});

const headers = [
  header('webhook-id', 'The same for every attempt to deliver this message.', 'msg_5f0c4f6d8a1b4c0e9d3a7b2c6e8f0a1d'),
  header('webhook-timestamp', 'When this attempt was signed, in seconds since 1970.', '1768469400'),
  header(
    'webhook-signature',
    'v1 signatures, separated by spaces: one for each valid secret.',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ),
];

export function webhookOperations(): Record<string, object> {
  return Object.fromEntries(
    Object.entries<WebhookEvent>(webhookEvents).map(([type, event]) => [type, { post: operationOf(type, event) }]),
  );
}

function operationOf(type: string, { about, data, example }: WebhookEvent): object {
  const name = type.split(/[._]/).map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  const schema = Type.Object(
    {
      type: Type.Literal(type),
      version: Type.Literal(PAYLOAD_VERSION),
      timestamp: Type.String({ format: 'date-time', description: 'When it happened.' }),
      organization_id: Type.String(),
      data,
    },
    { title: `${name.join('')}Payload` },
  );
  return {
    operationId: `on${name.join('')}`,
    tags: ['Webhooks'],
    summary: about,
    // Receivers verify the signature.
    security: [{}],
    parameters: headers,
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema,
          example: {
            type,
            version: PAYLOAD_VERSION,
            timestamp: '2026-01-15T09:30:00.000Z',
            organization_id: 'org_01j9z3k4m5n6p7q8r9s0t1v2w3',
            data: example,
          },
        },
      },
    },
    responses: {
      '2XX': { description: 'Received. The body is ignored.' },
      '410': { description: 'The receiver is gone: the webhook is disabled.' },
      default: { description: 'Not received: the message will be sent again.' },
    },
  };
}
