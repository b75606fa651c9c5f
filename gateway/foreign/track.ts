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
import type { ForeignItem, SentItems } from './fields.ts';
import { posthogError, posthogItem } from './posthog-batch.ts';
import { readPosthogBody, unpackPosthogBody } from './posthog-body.ts';
import { segmentError, segmentItem } from './segment-batch.ts';
import { ourTime, type Receipt } from './sent-time.ts';

/** How items of a service are read, and how it answers. */
interface Service {
  readonly itemOf: (item: unknown, receipt: Receipt) => ForeignItem;
  /** Converts the error of an item to the client's field names. */
  readonly asSent: (error: EventError, item: unknown) => EventError;
  /** The answer of the service itself. */
  readonly answer: object;
}

const segment: Service = { itemOf: segmentItem, asSent: segmentError, answer: { success: true } };
const posthog: Service = { itemOf: posthogItem, asSent: posthogError, answer: { status: 1 } };

export const BODY_BYTES_MAX = 1_048_576;
/** These clients add their own parameters: a version, a compression, the number of the attempt. */
export const anyQuery = Type.Object({}, { additionalProperties: true });
/** The fields of an event are documented by the other service. */
const itemSchema = Type.Object({}, { additionalProperties: true });
const batchSchema = Type.Array(itemSchema);
const { rejected, errors } = TrackedSchema.properties;
const refusedSchema = { rejected: Type.Optional(rejected), errors: Type.Optional(errors) };
const segmentAnswers = {
  200: {
    description: 'Stored.',
    schema: Type.Object({ success: Type.Boolean(), ...refusedSchema }),
    example: { success: true },
  },
};

/** The calls by the last part of their path; browsers use the single letters. */
const segmentCalls: Readonly<Record<string, string>> = {
  ...{ t: 'track', track: 'track', i: 'identify', identify: 'identify', g: 'group', group: 'group' },
  ...{ a: 'alias', alias: 'alias', p: 'page', page: 'page', s: 'screen', screen: 'screen' },
};

export const trackSegment = sdkRoute({
  method: 'POST',
  path: '/sdk/segment/v1/batch',
  alsoAt: ['/sdk/segment/v1/b', '/sdk/segment/v1/import'],
  operationId: 'trackSegmentBatch',
  caller: 'app',
  takesForeignKeys: true,
  limit: 'events',
  tag: 'SDK',
  summary: "Track events with Segment's clients",
  description:
    "Accepts Segment's batch, with the API key as the write key (Basic user name or `writeKey`). `messageId` is the event_id. " +
    '`track` items become events; `identify`, `group`, `alias`, `page` and `screen` do not. Rejected items are listed; if all are rejected, the answer is 400. ' +
    'Also at `/sdk/segment/v1/b` and `/sdk/segment/v1/import`.',
  bodyMode: 'raw',
  bodyBytesMax: BODY_BYTES_MAX,
  body: Type.Object({ batch: batchSchema, writeKey: Type.Optional(Type.String()) }),
  bodyExample: { batch: [{ type: 'track', event: 'signup', userId: 'user-7', messageId: 'ajs-1' }] },
  answers: segmentAnswers,
  handle: (deps, request) => {
    // One item that cannot be stored does not reject the others: each is checked as an event.
    const parsed = parseObject(request.rawBody, false);
    if ('rejection' in parsed) return parsed.rejection;
    const { batch, writeKey, sentAt } = parsed.value;
    if (!Array.isArray(batch)) return invalid('batch', 'must be a list');
    const nameOf = (index: number) => `batch[${index}]`;
    return track(deps, request, segment, { items: batch, nameOf, keys: [['writeKey', writeKey]], sentAt });
  },
});

export const trackSegmentCall = sdkRoute({
  method: 'POST',
  path: '/sdk/segment/v1/{call}',
  operationId: 'trackSegmentCall',
  caller: 'app',
  takesForeignKeys: true,
  limit: 'events',
  tag: 'SDK',
  summary: "Track one call of Segment's clients",
  description:
    'A single Segment message, as sent by its browser SDK and HTTP API. The path gives the type of the message. A rejected message gets a 400.',
  params: Type.Object({
    call: Type.String({
      pattern: `^(${Object.keys(segmentCalls).join('|')})$`,
      description: `One of ${Object.keys(segmentCalls).join(', ')}.`,
    }),
  }),
  bodyMode: 'raw',
  bodyBytesMax: BODY_BYTES_MAX,
  body: itemSchema,
  bodyExample: { event: 'signup', userId: 'user-7', messageId: 'ajs-1', writeKey: 'lk_…' },
  answers: segmentAnswers,
  handle: (deps, request) => {
    const parsed = parseObject(request.rawBody, false);
    if ('rejection' in parsed) return parsed.rejection;
    const { value } = parsed;
    const item = { ...value, type: segmentCalls[request.params.call] };
    return track(deps, request, segment, {
      items: [item],
      nameOf: () => '',
      keys: [['writeKey', value['writeKey']]],
      sentAt: value['sentAt'],
    });
  },
});

/** Where PostHog's clients send captures, by their age and platform. */
const posthogPaths = ['batch', 'e/', 'e', 'i/v0/e/', 'i/v0/e', 'capture/', 'capture', 'track/', 'track'].map(
  (end) => `/sdk/posthog/${end}`,
);

export const trackPosthog = sdkRoute({
  method: 'POST',
  path: '/sdk/posthog/batch/',
  alsoAt: posthogPaths,
  operationId: 'trackPostHogBatch',
  caller: 'app',
  takesForeignKeys: true,
  limit: 'events',
  tag: 'SDK',
  summary: "Track events with PostHog's clients",
  description:
    "Accepts PostHog's batch, with the API key as `api_key`. `uuid` is the event_id. `$identify`, `$set`, `$groupidentify`, `$create_alias`, " +
    '`$pageview`, `$pageleave`, `$screen` and what the browser SDK captures automatically do not become events. Rejected items are listed; if all are rejected, the answer is 400. ' +
    'The body may also be one capture, a list, gzip without a Content-Encoding, or a form with base64 in `data`. ' +
    `Also at ${posthogPaths.map((path) => `\`${path}\``).join(', ')}.`,
  bodyMode: 'raw',
  bodyBytesMax: BODY_BYTES_MAX,
  unpackBody: unpackPosthogBody,
  query: anyQuery,
  body: Type.Object({ batch: batchSchema, api_key: Type.Optional(Type.String()) }),
  bodyExample: { api_key: 'lk_…', batch: [{ event: 'signup', distinct_id: 'user-7', uuid: '0190…' }] },
  answers: {
    200: {
      description: 'Stored.',
      schema: Type.Object({ status: Type.Integer(), ...refusedSchema }),
      example: { status: 1 },
    },
  },
  handle: (deps, request) => {
    const { _: sentAt }: { readonly _?: string } = request.query;
    const sent = readPosthogBody(request.rawBody, sentAt);
    return sent instanceof Rejection ? sent : track(deps, request, posthog, sent);
  },
});

async function track(
  { foreign, storeClock }: GatewayDeps,
  { caller, ip, receivedMs, header }: Pick<Request<AppCaller>, 'caller' | 'ip' | 'receivedMs' | 'header'>,
  { itemOf, asSent, answer }: Service,
  { items, nameOf, keys, sentAt }: SentItems,
): Promise<Answer | Rejection> {
  const conflict = keyConflict({ header, keyInBody: caller.keyInBody }, keys);
  if (conflict) return conflict;
  if (items.length > EVENTS_MAX) return invalid('batch', `must contain at most ${EVENTS_MAX} events`);
  // Most of these clients run on servers, whose address is unrelated to the user; a browser's address is the user's.
  const userIp = header('user-agent').startsWith('Mozilla/') ? ip : '';
  const storeMs = storeClock.now();
  const receipt = { receivedMs: ourTime({ receivedMs, sentAt }, storeMs), sentAt };
  const foreignItems = items.map((item) => itemOf(item, receipt));
  const tracked = await foreign.track(foreignItems, { app: caller.app, ip: userIp, receivedMs, storeMs });
  if (tracked instanceof Rejection) return tracked;
  const { accepted, duplicates, rejected } = tracked;
  const errors = tracked.errors.map((error) => asSent(error, items[error.index]));
  if (rejected === 0) return { status: 200, body: answer };
  // Clients report one status for the whole batch: a 400 for a batch with an accepted event would report that event as
  // lost.
  if (accepted + duplicates > 0) return { status: 200, body: { ...answer, rejected, errors } };
  return invalidFields(errors.map(({ index, field, message }) => ({ field: fieldOf(nameOf(index), field), message })));
}

function fieldOf(item: string, field: string): string {
  if (field === '' || item === '') return item || field || 'body';
  return `${item}.${field}`;
}
