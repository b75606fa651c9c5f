import { Type } from 'typebox';
import { route } from '#api/route.ts';
import { invalid, notFound } from '#common/http/rejection.ts';
import { isStorableTime } from '#common/storable-time.ts';
import { endpointParams, withEndpoint } from './endpoint.ts';
import { messageExample } from './message.ts';

/** Messages of one call. */
const REPLAYED_MAX = 10_000;

const again = `
  UPDATE webhook_messages SET status = 'pending', tries = 0, lease = NULL, due_at = $3
   WHERE organization_id = ANY ($1) AND endpoint_id = $2`;
const one = `${again} AND id = $4 RETURNING id`;
/** A message that waits is in its turn already. */
const many = `${again} AND id IN (
  SELECT id FROM webhook_messages WHERE organization_id = ANY ($1) AND endpoint_id = $2 AND created_at >= $4 AND created_at < $5
     AND status <> 'pending' AND ($6::text IS NULL OR status = $6)
   ORDER BY created_at LIMIT ${REPLAYED_MAX} FOR UPDATE) RETURNING id`;

export const replayWebhook = route({
  method: 'POST',
  path: '/webhooks/{webhook_id}/replay',
  operationId: 'replayWebhook',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Replay messages of a webhook',
  description: `Sends one message again, or those that were created in a time range, with their old webhook-id. At most ${REPLAYED_MAX} in one call: while has_more is true, call again.`,
  params: endpointParams,
  body: Type.Object(
    {
      message_id: Type.Optional(Type.String({ description: 'One message, whatever its status.' })),
      from: Type.Optional(Type.String({ format: 'date-time', description: 'Messages created at this time or later.' })),
      to: Type.Optional(Type.String({ format: 'date-time', description: 'Messages created before. Default: now.' })),
      status: Type.Optional(Type.Unsafe<'delivered' | 'failed'>({ type: 'string', enum: ['delivered', 'failed'] })),
    },
    { additionalProperties: false, minProperties: 1, title: 'WebhookReplay' },
  ),
  bodyExample: { from: '2026-01-15T09:00:00.000Z', status: 'failed' },
  answers: {
    202: {
      description: 'The messages will be sent.',
      schema: Type.Object({ replayed: Type.Integer(), has_more: Type.Boolean() }, { title: 'WebhookReplayed' }),
      example: { replayed: 12, has_more: false },
    },
  },
  handle: (deps, { caller, params, body }) =>
    withEndpoint(deps, caller, params.webhook_id, false, async (tenant) => {
      const { message_id, from, to, status = null } = body;
      const now = new Date(deps.clock());
      if ((message_id === undefined) === (from === undefined)) {
        return invalid('body', 'must have either message_id or from');
      }
      if (message_id !== undefined) {
        const found = await tenant.query(one, [params.webhook_id, now, message_id]);
        if (found.length === 0)
          return notFound(`This webhook has no message such as ${messageExample.id} with this id.`);
        return { status: 202, body: { replayed: 1, has_more: false } };
      }
      for (const [name, time] of Object.entries({ from, to })) {
        if (time !== undefined && !isStorableTime(time)) return invalid(name, 'is out of range');
      }
      const range = [new Date(from ?? 0), to === undefined ? now : new Date(to), status];
      const rows = await tenant.query(many, [params.webhook_id, now, ...range]);
      return { status: 202, body: { replayed: rows.length, has_more: rows.length === REPLAYED_MAX } };
    }),
});
