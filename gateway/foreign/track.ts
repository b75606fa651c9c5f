/** The batches of other services' clients, taken as events and answered as those services do. */
import { Type } from 'typebox';
import { parseObject } from '#common/http/json.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import type { Answer, Request } from '#common/http/route.ts';
import type { AppCaller } from '#gateway/caller.ts';
import { type GatewayDeps, route } from '#gateway/deps.ts';
import { EVENTS_MAX, readEvents } from '#gateway/events/batch.ts';
import { keyConflict } from '#gateway/guard.ts';
import { posthogEvents } from './posthog-batch.ts';
import { segmentEvents } from './segment-batch.ts';

const BODY_BYTES_MAX = 1_048_576;
/** What stands in an event is the other service's to describe. */
const batchSchema = Type.Array(Type.Object({}, { additionalProperties: true }));

export const trackSegment = route({
  method: 'POST',
  path: '/sdk/segment/v1/batch',
  caller: 'app',
  takesForeignKeys: true,
  limit: 'events',
  tag: 'SDK',
  summary: "Track events with Segment's clients",
  description:
    "Segment's batch, with the API key as write key (basic user or `writeKey`). `messageId` is the event_id. Calls that are no " +
    'event for us are left out.',
  bodyMode: 'raw',
  bodyBytesMax: BODY_BYTES_MAX,
  body: Type.Object({ batch: batchSchema, writeKey: Type.Optional(Type.String()) }),
  bodyExample: { batch: [{ type: 'track', event: 'signup', userId: 'user-7', messageId: 'ajs-1' }] },
  answers: {
    200: { description: 'Stored.', schema: Type.Object({ success: Type.Boolean() }), example: { success: true } },
  },
  handle: (deps, request) => track(deps, request, '/sdk/segment/v1/batch', segmentEvents, { success: true }),
});

export const trackPosthog = route({
  method: 'POST',
  path: '/sdk/posthog/batch/',
  caller: 'app',
  takesForeignKeys: true,
  limit: 'events',
  tag: 'SDK',
  summary: "Track events with PostHog's clients",
  description: "PostHog's batch, with the API key as `api_key`. `uuid` is the event_id.",
  bodyMode: 'raw',
  bodyBytesMax: BODY_BYTES_MAX,
  body: Type.Object({ batch: batchSchema, api_key: Type.String() }),
  bodyExample: { api_key: 'lk_…', batch: [{ event: 'signup', distinct_id: 'user-7', uuid: '0190…' }] },
  answers: {
    200: { description: 'Stored.', schema: Type.Object({ status: Type.Integer() }), example: { status: 1 } },
  },
  handle: (deps, request) => track(deps, request, '/sdk/posthog/batch/', posthogEvents, { status: 1 }),
});

async function track(
  { events }: GatewayDeps,
  { caller, rawBody, ip, receivedMs, header }: Request<AppCaller>,
  path: string,
  toEvents: (batch: readonly unknown[]) => unknown[],
  answer: object,
): Promise<Answer | Rejection> {
  const parsed = parseObject(rawBody);
  if ('rejection' in parsed) return parsed.rejection;
  const conflict = keyConflict({ path, header, keyInBody: caller.keyInBody }, parsed.value);
  if (conflict) return conflict;
  const { batch } = parsed.value;
  if (!Array.isArray(batch)) return invalid('batch', 'must be a list');
  if (batch.length > EVENTS_MAX) return invalid('batch', `must hold at most ${EVENTS_MAX} events`);
  // These clients mostly run on servers, whose address says nothing of the user; a browser's does.
  const userIp = header('user-agent').startsWith('Mozilla/') ? ip : '';
  const read = readEvents(toEvents(batch), receivedMs);
  const tracked = await events.track(read, { app: caller.app, ip: userIp, receivedMs });
  return tracked instanceof Rejection ? tracked : { status: 200, body: answer };
}
