/** The six error codes of the API with their statuses. Every error answer uses one of them. */
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

/** An expected refusal: a value that is returned, never thrown. `message` is public text and names no other tenant. */
export class Rejection {
  readonly code: ErrorCode;
  readonly message: string;
  readonly errors: readonly FieldError[];
  /** Seconds to wait before a retry; becomes the Retry-After header. */
  readonly retryAfterSeconds: number | null;
  /** Machine-readable reason if the code alone is not specific enough: `details.reason`. */
  readonly reason: string | null;

  constructor(
    code: ErrorCode,
    message: string,
    more: { errors?: readonly FieldError[]; retryAfterSeconds?: number; reason?: string } = {},
  ) {
    this.code = code;
    this.message = message;
    this.errors = more.errors ?? [];
    this.retryAfterSeconds = more.retryAfterSeconds ?? null;
    this.reason = more.reason ?? null;
  }

  /** The error envelope. */
  get body(): object {
    const first = this.errors[0];
    if (!first && this.reason !== null)
      return { error: { code: this.code, message: this.message, details: { reason: this.reason } } };
    if (!first) return { error: { code: this.code, message: this.message } };
    const details =
      this.errors.length > 1
        ? { field: first.field, errors: this.errors.slice(0, FIELD_ERRORS_MAX) }
        : { field: first.field };
    return { error: { code: this.code, message: this.message, details } };
  }
}

const because = (reason: string | undefined) => (reason === undefined ? {} : { reason });

export const unauthorized = (message = 'Authentication is missing or not valid.', reason?: string) =>
  new Rejection('UNAUTHORIZED', message, because(reason));
export const forbidden = (message: string, reason?: string) => new Rejection('FORBIDDEN', message, because(reason));
export const notFound = (message = 'The requested resource does not exist.') => new Rejection('NOT_FOUND', message);
export const rateLimited = (retryAfterSeconds: number) =>
  new Rejection('RATE_LIMITED', `Too many requests. Try again in ${retryAfterSeconds} s.`, { retryAfterSeconds });

/** A dependency is unavailable. Nothing was changed; the caller should retry. */
export const unavailable = (
  message = 'A part of the service is unavailable. Try again later.',
  retryAfterSeconds = 5,
) => new Rejection('INTERNAL_ERROR', message, { retryAfterSeconds });

export function invalid(field: string, message: string): Rejection {
  return new Rejection('VALIDATION_ERROR', `${field}: ${message}`, { errors: [{ field, message }] });
}

export function invalidFields(errors: readonly FieldError[]): Rejection {
  const [first] = errors;
  if (!first) throw new Error('a validation error names at least one field');
  const message = errors.length === 1 ? `${first.field}: ${first.message}` : `${errors.length} fields are not valid.`;
  return new Rejection('VALIDATION_ERROR', message, { errors });
}
