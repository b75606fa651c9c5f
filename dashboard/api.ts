/** Calls of the API. The session is a cookie that scripts cannot read; the header marks requests as the dashboard's. */
import type { Operations } from './api-types.d.ts';
import { parseExact } from './exact-numbers.ts';

type Name = keyof Operations;
export type Answer<N extends Name> = Operations[N]['answer'];
export type Query<N extends Name> = Operations[N]['query'];
export type Body<N extends Name> = Operations[N]['body'];

interface Sent<N extends Name> {
  readonly params?: Operations[N]['params'];
  readonly query?: Operations[N]['query'];
  readonly body?: Operations[N]['body'];
  /** Sent unchanged, instead of a JSON body. */
  readonly file?: Blob;
  /** Sent without the session. */
  readonly isAnonymous?: true;
  /** Keeps all digits of the answer's numbers: dashboard/exact-numbers.ts. */
  readonly isExact?: true;
}

/** An error response of the API; `status` 0 if there was no response. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly requestId: string;
  readonly reason: string;
  /** Messages by field. */
  readonly fields: ReadonlyMap<string, string>;
  readonly retryAfterSeconds: number | null;

  constructor(status: number, message: string, more: Partial<ApiFailure> = {}) {
    super(message);
    this.status = status;
    this.requestId = more.requestId ?? '';
    this.reason = more.reason ?? '';
    this.fields = more.fields ?? new Map();
    this.retryAfterSeconds = more.retryAfterSeconds ?? null;
  }
}

const timeoutMs = 35_000;

/** @throws ApiFailure for every response except a success. */
export async function call<N extends Name>(name: N, sent: Sent<N> = {}): Promise<Answer<N>> {
  const [method = 'GET', path = ''] = name.split(' ');
  const { body, file } = sent;
  const type = file ? 'text/csv' : body === undefined ? null : 'application/json';
  let response: Response;
  try {
    response = await fetch(urlOf(path, sent.params, sent.query), {
      method,
      credentials: sent.isAnonymous ? 'omit' : 'same-origin',
      signal: AbortSignal.timeout(timeoutMs),
      headers: {
        'X-Signpost-Session': '1',
        ...(type === null ? {} : { 'Content-Type': type }),
      },
      ...(type === null ? {} : { body: file ?? JSON.stringify(body) }),
    });
  } catch {
    throw new ApiFailure(0, '');
  }
  const parsed = sent.isExact ? response.text().then(parseExact) : response.json();
  const json: unknown = await parsed.catch(() => null);
  if (!response.ok) throw failureOf(response, json);
  // The API checks its responses against the schemas from which these types are generated.
  return json as Answer<N>;
}

/** The URL of a GET, for links and images. */
export function urlOf(path: string, params: object = {}, query: object = {}): string {
  const filled = Object.entries(params).reduce(
    (text, [key, value]) => text.replace(`{${key}}`, encodeURIComponent(String(value))),
    path,
  );
  // An empty cursor asks for the first page.
  const pairs = Object.entries(query).filter(
    ([name, value]) => value !== undefined && (value !== '' || name === 'cursor'),
  );
  const text = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
  return `/v1${filled}${text === '' ? '' : `?${text}`}`;
}

function failureOf(response: Response, json: unknown): ApiFailure {
  const { error } = (json ?? {}) as { error?: { message?: string; details?: Details } };
  const details = error?.details ?? {};
  const messages = details.errors ?? (details.field ? [{ field: details.field, message: error?.message ?? '' }] : []);
  const seconds = Number(response.headers.get('retry-after'));
  return new ApiFailure(response.status, error?.message ?? '', {
    requestId: response.headers.get('x-request-id') ?? '',
    reason: details.reason ?? '',
    fields: new Map(messages.map((one) => [one.field, one.message.replace(`${one.field}: `, '')])),
    retryAfterSeconds: seconds > 0 ? seconds : null,
  });
}

interface Details {
  readonly field?: string;
  readonly reason?: string;
  readonly errors?: readonly { readonly field: string; readonly message: string }[];
}
