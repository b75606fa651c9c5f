/** The six error codes of the API with their statuses. Every error answer uses one of them. */
import { docUrlOf, type ErrorReason } from './doc-pages.ts';

export const statusOf = {
  VALIDATION_ERROR: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  RATE_LIMITED: 429,
  INTERNAL_ERROR: 500,
} as const;

export type ErrorCode = keyof typeof statusOf;

/** One fault in a request. `field` is dotted and indexed: `ios.bundle_id`, `events[3].name`; `body` for the whole body. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}

const FIELD_ERRORS_MAX = 100;
/** Fields that the message of several errors names. */
const NAMED_FIELDS_MAX = 5;

/** An expected refusal: a value that is returned, never thrown. `message` is public text and names no other tenant. */
export class Rejection {
  readonly code: ErrorCode;
  readonly message: string;
  readonly errors: readonly FieldError[];
  /** Seconds to wait before a retry; becomes the Retry-After header. */
  readonly retryAfterSeconds: number | null;
  /** Machine-readable reason if the code alone is not specific enough: `details.reason`. */
  readonly reason: ErrorReason | null;
  /** The link that has what the caller wants: `details.link_id`. */
  readonly linkId: string | null;

  constructor(
    code: ErrorCode,
    message: string,
    more: { errors?: readonly FieldError[]; retryAfterSeconds?: number; reason?: ErrorReason; linkId?: string } = {},
  ) {
    this.code = code;
    this.message = message;
    this.errors = more.errors ?? [];
    this.retryAfterSeconds = more.retryAfterSeconds ?? null;
    this.reason = more.reason ?? null;
    this.linkId = more.linkId ?? null;
  }

  /** The HTTP status. */
  get status(): number {
    return this.reason === 'slow_body' ? 408 : statusOf[this.code];
  }

  /** The error envelope. */
  get body(): { readonly error: object } {
    const [first, second] = this.errors;
    const details = {
      ...(first ? { field: first.field } : {}),
      ...(second ? { errors: this.errors.slice(0, FIELD_ERRORS_MAX) } : {}),
      ...(this.reason === null ? {} : { reason: this.reason }),
      ...(this.linkId === null ? {} : { link_id: this.linkId }),
      doc_url: docUrlOf(this),
    };
    const { code, message } = this;
    return { error: { code, message, details } };
  }
}

const because = (reason: ErrorReason | undefined) => (reason === undefined ? {} : { reason });

export const unauthorized = (message = 'Authentication is missing or not valid.', reason?: ErrorReason) =>
  new Rejection('UNAUTHORIZED', message, because(reason));
export const forbidden = (message: string, reason?: ErrorReason) =>
  new Rejection('FORBIDDEN', message, because(reason));
export const notFound = (message = 'The requested resource does not exist.') => new Rejection('NOT_FOUND', message);
export const rateLimited = (retryAfterSeconds: number) =>
  new Rejection('RATE_LIMITED', `Too many requests. Try again in ${retryAfterSeconds} s.`, { retryAfterSeconds });

/** A dependency is unavailable. Nothing was changed; the caller should retry. */
export const unavailable = (
  message = 'A part of the service is unavailable. Try again later.',
  retryAfterSeconds = 5,
) => new Rejection('INTERNAL_ERROR', message, { retryAfterSeconds });

/** The body arrives too slowly. Nothing was changed; a smaller one may arrive in time. It is 408 with the code of what may be retried. */
export const tooSlow = () =>
  new Rejection('INTERNAL_ERROR', 'The body of the request arrived too slowly. Try again with a smaller one.', {
    retryAfterSeconds: 1,
    reason: 'slow_body',
  });

export function invalid(field: string, message: string): Rejection {
  return new Rejection('VALIDATION_ERROR', `${field}: ${message}`, { errors: [{ field, message }] });
}

/** A short code or an external id that another link of the app has; its id, unless that link is deleted. */
export function taken(field: string, linkId: string | null): Rejection {
  const message = 'is already used by another link of this app';
  const holder = linkId === null ? {} : { linkId };
  return new Rejection('VALIDATION_ERROR', `${field}: ${message}`, {
    errors: [{ field, message }],
    reason: 'taken',
    ...holder,
  });
}

export function invalidFields(errors: readonly FieldError[]): Rejection {
  const [first] = errors;
  if (!first) throw new Error('a validation error names at least one field');
  const message = errors.length === 1 ? `${first.field}: ${first.message}` : severalText(errors);
  return new Rejection('VALIDATION_ERROR', message, { errors });
}

function severalText(errors: readonly FieldError[]): string {
  const names = errors.slice(0, NAMED_FIELDS_MAX).map(({ field }) => field);
  const rest = errors.length - names.length;
  return `${errors.length} fields are not valid: ${names.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}.`;
}
