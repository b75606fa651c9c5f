/** The catalogue of webhooks: what an endpoint may subscribe to, and what the payload of each is. */
import { type TSchema, Type } from 'typebox';
import { linkExample, linkSchema } from '#common/links/link.ts';

/** Of every payload. A change that old receivers would not understand gets a higher one. */
export const PAYLOAD_VERSION = 1;

export interface WebhookEvent {
  readonly about: string;
  /** The payload's `data`. */
  readonly data: TSchema;
  readonly example: object;
}

export const disabledReasons = ['requested', 'gone', 'failing', 'backlog'] as const;
export type DisabledReason = (typeof disabledReasons)[number];

/** Why an attempt got no answer. */
export const webhookFailures = [
  'timeout',
  'address_not_allowed',
  'name_not_resolved',
  'tls_failed',
  'connection_failed',
  'secret_unreadable',
] as const;
export type WebhookFailure = (typeof webhookFailures)[number];
/** How an attempt ended; `http_error`: with an answer other than 2xx. */
export const attemptOutcomes = ['delivered', 'http_error', ...webhookFailures] as const;

const link = { data: linkSchema, example: linkExample };

export const webhookEvents = {
  'link.created': { about: 'A link was created.', ...link },
  'link.updated': { about: 'A link was changed. The payload has its new values.', ...link },
  'link.deleted': { about: 'A link was deleted. The payload has its last values.', ...link },
  'endpoint.disabled': {
    about: 'Another webhook endpoint of the organization was disabled, because its deliveries failed.',
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
