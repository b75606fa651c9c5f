/** The catalogue of webhook events: what an endpoint can subscribe to, and the payload of each event. */
import { type TSchema, Type } from 'typebox';
import { linkExample, linkSchema } from '#common/links/link.ts';
import type { NoMatchReason } from '#common/match/rules.ts';
import { outboundFailures } from '#common/outbound-request.ts';
import { auditPayload, auditPayloadExample, importPayload, importPayloadExample } from './job-payloads.ts';
import {
  clicksExample,
  clicksPayload,
  eventExample,
  eventPayload,
  installExample,
  installPayload,
  matchExample,
  matchPayload,
} from './record-payloads.ts';

/** Version of all payloads. An incompatible change increases it. */
export const PAYLOAD_VERSION = 1;

export interface WebhookEvent {
  readonly about: string;
  /** The payload's `data`. */
  readonly data: TSchema;
  readonly example: object;
}

export const disabledReasons = ['requested', 'gone', 'failing', 'backlog'] as const;
export type DisabledReason = (typeof disabledReasons)[number];

/** Why an attempt got no response. */
const webhookFailures = [...outboundFailures, 'secret_unreadable', 'internal_error'] as const;
export type WebhookFailure = (typeof webhookFailures)[number];
/**
 * The outcome of an attempt. `http_error`: a response other than 2xx; `payload_gone`: its clicks are no longer stored;
 * `internal_error`: our own processing failed, before or after the request.
 */
export const attemptOutcomes = ['delivered', 'http_error', 'payload_gone', ...webhookFailures] as const;

/** Maximum clicks of a `click.batch`; more are split into several messages. */
export const CLICKS_MAX = 500;

/**
 * Outcomes of a match that are reported as match.refused: a click or link was named, or clicks were compared, but none
 * was matched.
 */
export const refusedOutcomes = [
  ...(['low_confidence', 'ambiguous', 'click_unknown', 'click_pending', 'click_claimed', 'click_expired'] as const),
  'link_unknown',
] as const satisfies readonly NoMatchReason[];

const link = { data: linkSchema, example: linkExample };

export const webhookEvents = {
  'link.created': { about: 'A link was created.', ...link },
  'link.updated': { about: 'A link was changed. The payload has its new values.', ...link },
  'link.deleted': { about: 'A link was deleted. The payload has its last values.', ...link },
  'click.batch': {
    about: 'Up to 500 clicks were recorded, including bots. A busy app gets several of these per second.',
    data: clicksPayload,
    example: clicksExample,
  },
  'install.recorded': {
    about: 'An app was installed. Opening an installed app does not count.',
    data: installPayload,
    example: installExample,
  },
  'install.attributed': {
    about: 'An app was installed because of a link.',
    data: installPayload,
    example: installExample,
  },
  'event.recorded': {
    about: 'An event with one of the names in event_names was recorded.',
    data: eventPayload,
    example: eventExample,
  },
  'conversion.recorded': {
    about: 'An event was recorded that counts as a conversion.',
    data: eventPayload,
    example: eventExample,
  },
  'match.refused': {
    about: 'An app asked which link it was installed from, and no click was certain or likely enough.',
    data: matchPayload,
    example: matchExample,
  },
  'import.finished': {
    about: 'An import ended: its links were created, it was undone, or its file could not be read.',
    data: importPayload,
    example: importPayloadExample,
  },
  'audit.failed': {
    about:
      'The hourly audit found that statistics do not match their records. Sent when a failure starts, and not repeated while the following hours fail in the same way.',
    data: auditPayload,
    example: auditPayloadExample,
  },
  'endpoint.disabled': {
    about: 'Another webhook endpoint of the organization was disabled because its deliveries failed.',
    data: Type.Object({
      id: Type.String({ description: 'The endpoint that was disabled.' }),
      url: Type.String(),
      reason: Type.Unsafe<DisabledReason>({ type: 'string', enum: [...disabledReasons] }),
    }),
    example: { id: 'whk_01j9z3k4m5n6p7q8r9s0t1v2w3', url: 'https://hooks.example.com/signpost', reason: 'failing' },
  },
} as const satisfies Readonly<Record<string, WebhookEvent>>;

export type WebhookEventType = keyof typeof webhookEvents;
export const webhookEventTypes = Object.keys(webhookEvents) as WebhookEventType[];

/** Sent on request, to one endpoint, whatever it subscribes to. */
export const TEST_EVENT = 'endpoint.test';
