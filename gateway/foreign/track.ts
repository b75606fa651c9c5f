/**
 * The batch endpoints for other services' clients: their items become events, and the answers have those services'
 * format.
 */
import { Type } from 'typebox';
import { parseObject } from '#common/http/json.ts';
import { invalid, invalidFields, Rejection } from '#common/http/rejection.ts';
import type { Answer, Request } from '#common/http/route.ts';
import type { AppCaller } from '#gateway/caller.ts';
import { type GatewayDeps, sdkRoute } from '#gateway/deps.ts';
import { EVENTS_MAX, type EventError } from '#gateway/events/batch.ts';
import { TrackedSchema } from '#gateway/events/event-schema.ts';
import { keyConflict } from '#gateway/guard.ts';
import type { ForeignItem } from './fields.ts';
import { posthogError, posthogItem } from './posthog-batch.ts';
import { segmentError, segmentItem } from './segment-batch.ts';

interface Service {
  readonly path: string;
  readonly itemOf: (item: unknown) => ForeignItem;
  /** The error of an item, with the names that the client uses. */
  readonly asSent: (error: EventError, item: unknown) => EventError;
  /** What the service itself answers. */
  readonly answer: object;
}

const segment: Service = {
  path: '/sdk/segment/v1/batch',
  itemOf: segmentItem,
  asSent: segmentError,
  answer: { success: true },
};
const posthog: Service = {
  path: '/sdk/posthog/batch/',
  itemOf: posthogItem,
  asSent: posthogError,
  answer: { status: 1 },
};

const BODY_BYTES_MAX = 1_048_576;
/** The fields of an event are documented by the other service. */
const batchSchema = Type.Array(Type.Object({}, { additionalProperties: true }));
const { rejected, errors } = TrackedSchema.properties;
const refusedSchema = { rejected: Type.Optional(rejected), errors: Type.Optional(errors) };

export const trackSegment = sdkRoute({
  method: 'POST',
  path: segment.path,
  operationId: 'trackSegmentBatch',
  caller: 'app',
  takesForeignKeys: true,
  limit: 'events',
  tag: 'SDK',
  summary: "Track events with Segment's clients",
  description:
    "Accepts Segment's batch, with the API key as the write key (Basic user name or `writeKey`). `messageId` is the event_id. " +
    '`track` items become events; `identify`, `group`, `alias`, `page` and `screen` do not. Rejected items are listed; if all are rejected, the answer is 400.',
  bodyMode: 'raw',
  bodyBytesMax: BODY_BYTES_MAX,
  body: Type.Object({ batch: batchSchema, writeKey: Type.Optional(Type.String()) }),
  bodyExample: { batch: [{ type: 'track', event: 'signup', userId: 'user-7', messageId: 'ajs-1' }] },
  answers: {
    200: {
      description: 'Stored.',
      schema: Type.Object({ success: Type.Boolean(), ...refusedSchema }),
      example: { success: true },
    },
  },
  handle: (deps, request) => track(deps, request, segment),
});

export const trackPosthog = sdkRoute({
  method: 'POST',
  path: posthog.path,
  operationId: 'trackPostHogBatch',
  caller: 'app',
  takesForeignKeys: true,
  limit: 'events',
  tag: 'SDK',
  summary: "Track events with PostHog's clients",
  description:
    "Accepts PostHog's batch, with the API key as `api_key`. `uuid` is the event_id. `$identify`, `$set`, `$groupidentify`, `$create_alias`, " +
    '`$pageview`, `$pageleave` and `$screen` do not become events. Rejected items are listed; if all are rejected, the answer is 400.',
  bodyMode: 'raw',
  bodyBytesMax: BODY_BYTES_MAX,
  body: Type.Object({ batch: batchSchema, api_key: Type.String() }),
  bodyExample: { api_key: 'lk_…', batch: [{ event: 'signup', distinct_id: 'user-7', uuid: '0190…' }] },
  answers: {
    200: {
      description: 'Stored.',
      schema: Type.Object({ status: Type.Integer(), ...refusedSchema }),
      example: { status: 1 },
    },
  },
  handle: (deps, request) => track(deps, request, posthog),
});

async function track(
  { foreign }: GatewayDeps,
  { caller, rawBody, ip, receivedMs, header }: Request<AppCaller>,
  { path, itemOf, asSent, answer }: Service,
): Promise<Answer | Rejection> {
  const parsed = parseObject(rawBody);
  if ('rejection' in parsed) return parsed.rejection;
  const conflict = keyConflict({ path, header, keyInBody: caller.keyInBody }, parsed.value);
  if (conflict) return conflict;
  const { batch } = parsed.value;
  if (!Array.isArray(batch)) return invalid('batch', 'must be a list');
  if (batch.length > EVENTS_MAX) return invalid('batch', `must contain at most ${EVENTS_MAX} events`);
  // These clients mostly run on servers, whose address says nothing about the user; a browser's does.
  const userIp = header('user-agent').startsWith('Mozilla/') ? ip : '';
  const tracked = await foreign.track(batch.map(itemOf), { app: caller.app, ip: userIp, receivedMs });
  if (tracked instanceof Rejection) return tracked;
  const { accepted, duplicates, rejected } = tracked;
  const errors = tracked.errors.map((error) => asSent(error, batch[error.index]));
  if (rejected === 0) return { status: 200, body: answer };
  // Their clients report one status for the whole batch: 400 for a batch with an accepted event would report that event
  // as lost.
  if (accepted + duplicates > 0) return { status: 200, body: { ...answer, rejected, errors } };
  return invalidFields(errors.map(({ index, field, message }) => ({ field: fieldOf(index, field), message })));
}

function fieldOf(index: number, field: string): string {
  return field === '' ? `batch[${index}]` : `batch[${index}].${field}`;
}
