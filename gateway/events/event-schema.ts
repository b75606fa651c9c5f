/** What an event looks like on the wire. The same schema validates and documents. */
import { Type } from 'typebox';
import { eventTextMax, sdkPlatforms } from '#common/log/event-record.ts';

/** SDKs write null for what they don't know; it means the same as leaving the field out. */
function text(maxLength: number, description: string) {
  return Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], maxLength, description }));
}

const identity = {
  install_id: text(eventTextMax.install_id, 'The install, as POST /sdk/install answered it.'),
  device_id: text(eventTextMax.device_id, "The device, in the app's own terms."),
  user_id: text(
    eventTextMax.user_id,
    "The user, in the app's own terms; names no install, so alone it gives an event no link.",
  ),
  session_id: text(eventTextMax.session_id, "The session, in the app's own terms."),
};

const platform = Type.Optional(
  Type.Unsafe<(typeof sdkPlatforms)[number] | null>({
    enum: [...sdkPlatforms, null],
    description: 'Where it happened.',
  }),
);

export const EventSchema = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: eventTextMax.name }),
    event_id: text(
      eventTextMax.event_id,
      'Made by the app, so that a retry counts once in 24 hours; made here if absent.',
    ),
    timestamp: Type.Optional(
      Type.Unsafe<string | number | null>({
        type: ['string', 'number', 'null'],
        description: 'ISO 8601 or epoch milliseconds; now if absent. At most 90 days old and an hour ahead.',
      }),
    ),
    ...identity,
    platform,
    link_id: text(eventTextMax.link_id, 'The link that led to it.'),
    click_id: text(eventTextMax.click_id, 'The click that led to it.'),
    properties: Type.Optional(
      Type.Unsafe<Record<string, unknown> | null>({
        type: ['object', 'null'],
        description: 'At most 32 KiB of JSON, kept as it was sent.',
      }),
    ),
    revenue: Type.Optional(
      Type.Unsafe<{ amount: string | number; currency: string } | null>({
        type: ['object', 'null'],
        description:
          '`amount`, a decimal of at most 20 digits before and 9 behind the point (as text it is taken exactly), and `currency`, an ISO 4217 code.',
      }),
    ),
  },
  { description: 'One of install_id, device_id and user_id must be there, here or in the context.' },
);

export const ContextSchema = Type.Object(
  {
    ...identity,
    platform,
    ip: Type.Optional(
      Type.Unsafe<unknown>({
        description: "The device's IP address, where a server sends for it: the country is looked up by it. Not kept.",
      }),
    ),
  },
  { description: 'What all events of the batch share.' },
);

export const BatchSchema = Type.Object(
  {
    events: Type.Array(EventSchema, { minItems: 1, maxItems: 1000 }),
    context: Type.Optional(ContextSchema),
  },
  { description: 'A batch. One bare event object is accepted too.' },
);

export const TrackedSchema = Type.Object({
  accepted: Type.Integer(),
  duplicates: Type.Integer(),
  rejected: Type.Integer(),
  errors: Type.Array(
    Type.Object({
      index: Type.Integer(),
      event_id: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
      code: Type.String(),
      field: Type.String(),
      message: Type.String(),
    }),
  ),
});
