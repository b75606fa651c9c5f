/** Messages of a webhook, and the attempts to deliver them. */
import { Type } from 'typebox';
import { nullable } from '#common/links/link-fields.ts';
import { attemptOutcomes } from '#common/webhooks/webhook-events.ts';

export const messageStatuses = ['pending', 'delivered', 'failed'] as const;
type MessageStatus = (typeof messageStatuses)[number];

/** Counting stops here, because counting all of a longer list would cost more than the page. */
export const COUNTED_MAX = 10_000;

export interface MessageRow {
  readonly id: string;
  readonly type: string;
  readonly status: MessageStatus;
  readonly tries: number;
  readonly data: Readonly<Record<string, unknown>>;
  readonly occurred_at: Date;
  readonly created_at: Date;
  readonly due_at: Date;
}

export interface AttemptRow {
  readonly message_id: string;
  readonly type: string;
  readonly url: string;
  readonly outcome: (typeof attemptOutcomes)[number];
  readonly http_status: number | null;
  readonly answer: string;
  readonly duration_ms: number;
  readonly attempted_at: Date;
}

/** @param shown the part of a URL that the caller may see. `endpoint.disabled` is about another endpoint, with its URL. */
export function messageAnswer(
  { due_at, created_at, occurred_at, ...fields }: MessageRow,
  shown: (url: string) => string,
): object {
  const { url } = fields.data;
  return {
    ...fields,
    data:
      fields.type === 'endpoint.disabled' && typeof url === 'string'
        ? { ...fields.data, url: shown(url) }
        : fields.data,
    occurred_at: occurred_at.toISOString(),
    created_at: created_at.toISOString(),
    next_attempt_at: fields.status === 'pending' ? due_at.toISOString() : null,
  };
}

export function attemptAnswer({ attempted_at, ...fields }: AttemptRow): object {
  return { ...fields, attempted_at: attempted_at.toISOString() };
}

const time = Type.String({ format: 'date-time' });
export const statusSchema = Type.Unsafe<MessageStatus>({ type: 'string', enum: [...messageStatuses] });

export const messageSchema = Type.Object(
  {
    id: Type.String({ description: 'The webhook-id of each delivery.' }),
    type: Type.String(),
    status: statusSchema,
    tries: Type.Integer({ description: 'Number of attempts since it was created or replayed.' }),
    data: Type.Object(
      {},
      { additionalProperties: true, description: 'The record or object that the payload is about.' },
    ),
    occurred_at: time,
    created_at: time,
    next_attempt_at: nullable(time),
  },
  { title: 'WebhookMessage' },
);

export const attemptSchema = Type.Object(
  {
    message_id: Type.String(),
    type: Type.String(),
    url: Type.String(),
    outcome: Type.Unsafe<AttemptRow['outcome']>({
      type: 'string',
      enum: [...attemptOutcomes],
      description:
        'http_error: the response was not 2xx; redirects are not followed. internal_error: Signpost could not process the message.',
    }),
    http_status: nullable(Type.Integer()),
    answer: Type.String({ description: 'The first kilobyte of the response.' }),
    duration_ms: Type.Integer(),
    attempted_at: time,
  },
  { title: 'WebhookAttempt' },
);

export const messageExample = {
  id: 'msg_5f0c4f6d8a1b4c0e9d3a7b2c6e8f0a1d',
  type: 'link.created',
  status: 'pending',
  tries: 1,
  data: { id: 'lnk_01j9z3k4m5n6p7q8r9s0t1v2w3' },
  occurred_at: '2026-01-15T09:30:00.000Z',
  created_at: '2026-01-15T09:30:00.000Z',
  next_attempt_at: '2026-01-15T09:35:05.000Z',
};

export const attemptExample = {
  message_id: messageExample.id,
  type: messageExample.type,
  url: 'https://hooks.example.com/signpost',
  outcome: 'http_error',
  http_status: 503,
  answer: 'Try again later',
  duration_ms: 120,
  attempted_at: '2026-01-15T09:30:05.000Z',
};
