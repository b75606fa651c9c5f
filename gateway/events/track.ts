/** POST /sdk/events: accepts a batch of events, or a single one, and answers once the journal has them. */
import type { RawBody } from '#common/http/raw-body.ts';
import { invalid, invalidFields, Rejection } from '#common/http/rejection.ts';
import { sdkRoute } from '#gateway/deps.ts';
import { readBatch } from './batch.ts';
import { BatchSchema, TrackedSchema } from './event-schema.ts';
import type { EventTracking, Sender, Tracked } from './tracking.ts';

const BODY_BYTES_MAX = 1_048_576;

export const trackEvents = sdkRoute({
  method: 'POST',
  path: '/sdk/events',
  operationId: 'trackEvents',
  caller: 'app',
  limit: 'events',
  tag: 'SDK',
  summary: 'Track events',
  description:
    'One to 1,000 events, or a single event object. 202 means that every accepted event is stored. Invalid events are ' +
    'rejected individually. An event_id counts once per app within 24 hours.',
  bodyMode: 'raw',
  bodyBytesMax: BODY_BYTES_MAX,
  body: BatchSchema,
  bodyExample: {
    events: [
      {
        name: 'purchase',
        event_id: 'order-1042',
        device_id: 'device-7',
        properties: { sku: 'A-1' },
        revenue: { amount: '19.99', currency: 'EUR' },
      },
    ],
  },
  answers: {
    202: {
      description: 'How many events were accepted, and why the others were rejected.',
      schema: TrackedSchema,
      example: { accepted: 1, duplicates: 0, rejected: 0, errors: [] },
    },
  },
  async handle({ events, storeClock }, { caller, rawBody, ip, receivedMs, header }) {
    if (!/^application\/json\s*(;|$)/i.test(header('content-type'))) {
      return invalid('content-type', 'the header must be application/json');
    }
    const storeMs = storeClock.now();
    const [tracking, isSingle] = begin(events, rawBody, { app: caller.app, ip, receivedMs, storeMs });
    const tracked = await tracking;
    if (tracked instanceof Rejection) return tracked;
    if (tracked.accepted + tracked.duplicates > 0) return { status: 202, body: tracked };
    return invalidFields(
      tracked.errors.map(({ index, field, message }) => ({ field: fieldOf(index, field, isSingle), message })),
    );
  },
});

/** Separate from `handle`, which would keep the whole batch in memory while it waits. */
function begin(
  events: EventTracking,
  body: RawBody,
  sender: Sender,
): [tracking: Promise<Tracked | Rejection>, isSingle: boolean] {
  const batch = readBatch(body, sender);
  return batch instanceof Rejection ? [Promise.resolve(batch), false] : [events.track(batch, sender), batch.isSingle];
}

function fieldOf(index: number, field: string, isSingle: boolean): string {
  if (isSingle) return field === '' ? 'body' : field;
  return field === '' ? `events[${index}]` : `events[${index}].${field}`;
}
