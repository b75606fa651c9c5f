import { type Static, Type } from 'typebox';
import type { Note } from '#api/audit-trail.ts';
import { changingRoute } from '#api/route.ts';
import { invalid, notFound } from '#common/http/rejection.ts';
import { isStorableTime } from '#common/storable-time.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import { type EndpointRow, endpointParams, withEndpoint } from './endpoint.ts';
import { messageExample } from './message.ts';

/** Maximum messages of one call. */
const REPLAYED_MAX = 10_000;

export const replayLimit = `At most ${REPLAYED_MAX} per call: while has_more is true, call again with the same range. A delivered message is sent again at most once an hour, so repeating the request has no effect.`;

const again = `
  UPDATE webhook_messages SET status = 'pending', tries = 0, lease = NULL, due_at = now(), replayed_at = now()
   WHERE organization_id = ANY ($1) AND endpoint_id = $2`;
/** A message with an attempt in progress is already being delivered. */
const one = `
  WITH found AS (
    SELECT m.id, m.lease IS NOT NULL AND m.due_at BETWEEN now() AND now() + interval '1 day' AS is_under_way
      FROM webhook_messages m JOIN webhook_endpoints e ON e.id = m.endpoint_id
     WHERE m.organization_id = ANY ($1) AND m.endpoint_id = $2 AND m.id = $3
       AND signpost_is_message_for(e.app_ids, m.type, m.data) FOR UPDATE OF m
  ), replayed AS (${again} AND id IN (SELECT id FROM found WHERE NOT is_under_way))
  SELECT id FROM found`;
/**
 * A waiting message is already queued, and a delivered one was replayed within the hour. The array keeps the planner from
 * using a nested loop over all messages.
 */
const many = `${again} AND id = ANY (ARRAY(
  SELECT m.id FROM webhook_messages m JOIN webhook_endpoints e ON e.id = m.endpoint_id
   WHERE m.organization_id = ANY ($1) AND m.endpoint_id = $2 AND m.created_at >= $3 AND m.created_at < coalesce($4, now())
     AND m.status <> 'pending' AND ($5::text IS NULL OR m.status = $5)
     AND (m.status = 'failed' OR m.replayed_at IS NULL OR m.replayed_at NOT BETWEEN now() - interval '1 hour' AND now())
     AND signpost_is_message_for(e.app_ids, m.type, m.data)
   ORDER BY m.created_at LIMIT ${REPLAYED_MAX} FOR UPDATE OF m)) RETURNING id`;

/** Of webhooks and of postbacks. */
export const replayBody = Type.Object(
  {
    message_id: Type.Optional(Type.String({ description: 'One message, whatever its status.' })),
    from: Type.Optional(Type.String({ format: 'date-time', description: 'Messages created at this time or later.' })),
    to: Type.Optional(
      Type.String({ format: 'date-time', description: 'Messages created before this time. Default: now.' }),
    ),
    status: Type.Optional(Type.Unsafe<'delivered' | 'failed'>({ type: 'string', enum: ['delivered', 'failed'] })),
  },
  { additionalProperties: false, minProperties: 1, title: 'WebhookReplay' },
);
export const replayExample = { from: '2026-01-15T09:00:00.000Z', status: 'failed' };
export const replayAnswers = {
  202: {
    description: 'The messages will be sent.',
    schema: Type.Object({ replayed: Type.Integer(), has_more: Type.Boolean() }, { title: 'WebhookReplayed' }),
    example: { replayed: 12, has_more: false },
  },
};

export const replayWebhook = changingRoute({
  method: 'POST',
  path: '/webhooks/{webhook_id}/replay',
  operationId: 'replayWebhook',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Replay messages of a webhook',
  description: `Sends one message again, or all messages created in a time range, with their original webhook-id. ${replayLimit}`,
  params: endpointParams,
  body: replayBody,
  bodyExample: replayExample,
  answers: replayAnswers,
  handle: (deps, { caller, note, params, body }) =>
    withEndpoint(deps, caller, params.webhook_id, false, (tenant, endpoint) =>
      replayMessages({ tenant, note }, endpoint, body),
    ),
});

/** Sends messages of an endpoint again, for a caller who may change it. */
export async function replayMessages(
  { tenant, note }: { readonly tenant: TenantQueries; readonly note: Note },
  endpoint: Pick<EndpointRow, 'id' | 'organization_id'>,
  { message_id, from, to, status }: Static<typeof replayBody>,
) {
  const endpointId = endpoint.id;
  if ((message_id === undefined) === (from === undefined)) {
    return invalid('body', 'must have either message_id or from');
  }
  if (message_id !== undefined) {
    const found = await tenant.query(one, [endpointId, message_id]);
    return found.length === 0
      ? notFound(`There is no message such as ${messageExample.id} with this id here.`)
      : { status: 202 as const, body: { replayed: 1, has_more: false }, noted: await note(tenant, endpoint) };
  }
  for (const [name, time] of Object.entries({ from, to })) {
    if (time !== undefined && !isStorableTime(time)) return invalid(name, 'is out of range');
  }
  const range = [new Date(from ?? 0), to === undefined ? null : new Date(to), status ?? null];
  const rows = await tenant.query(many, [endpointId, ...range]);
  const noted = await note(tenant, endpoint);
  return { status: 202 as const, body: { replayed: rows.length, has_more: rows.length === REPLAYED_MAX }, noted };
}
