import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { HOUR_MS } from '#common/durations.ts';
import { newWebhookSecret, webhookSecretContext } from '#common/webhooks/webhook-secret.ts';
import {
  type EndpointRow,
  endpointAnswer,
  endpointColumns,
  endpointExample,
  endpointParams,
  endpointWithSecretSchema,
  secretExample,
  withEndpoint,
} from './endpoint.ts';

const OVERLAP_HOURS = 24;
const OVERLAP_HOURS_MAX = 168;

const rotate = `
  UPDATE webhook_endpoints SET previous_secret_ciphertext = CASE WHEN $4::float8 > 0 THEN secret_ciphertext END,
         previous_secret_until = CASE WHEN $4 > 0 THEN now() + $4 * interval '1 millisecond' END, secret_ciphertext = $3, updated_at = $5
   WHERE organization_id = ANY ($1) AND id = $2 RETURNING ${endpointColumns}`;

export const rotateWebhookSecret = changingRoute({
  method: 'POST',
  path: '/webhooks/{webhook_id}/rotate-secret',
  operationId: 'rotateWebhookSecret',
  showsSecret: true,
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Rotate the secret of a webhook',
  description:
    'Messages are signed with both secrets until the overlap ends, so that receivers can switch at any time until then. If an earlier rotation still overlaps, its old secret stops signing immediately.',
  params: endpointParams,
  body: Type.Object(
    {
      overlap_hours: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: OVERLAP_HOURS_MAX,
          description: `Hours for which the current secret stays valid; default ${OVERLAP_HOURS}.`,
        }),
      ),
    },
    { additionalProperties: false },
  ),
  bodyExample: { overlap_hours: OVERLAP_HOURS },
  answers: {
    200: {
      description: 'The webhook, with its new secret.',
      schema: endpointWithSecretSchema,
      example: { ...endpointExample, secret: secretExample },
    },
  },
  handle: (deps, { caller, note, params, body }) =>
    withEndpoint(deps, caller, params.webhook_id, false, async (tenant, before) => {
      const nowMs = deps.clock();
      const overlapMs = (body.overlap_hours ?? OVERLAP_HOURS) * HOUR_MS;
      const secret = newWebhookSecret();
      const sealed = deps.webhooks.encryption.encrypt(secret, webhookSecretContext(params.webhook_id));
      const [row] = await tenant.query<EndpointRow>(rotate, [params.webhook_id, sealed, overlapMs, new Date(nowMs)]);
      return {
        status: 200,
        body: { ...endpointAnswer(caller, row ?? before, nowMs), secret },
        noted: await note(tenant, before),
      };
    }),
});
