/** Sends requests to the server and decides after each answer how long to wait: full jitter, Retry-After, or the longest wait for what only a person can mend. */
import { BACKOFF_MAX_MS, BACKOFF_MIN_MS, REQUEST_TIMEOUT_MS, RETRY_AFTER_MAX_MS } from './limits.ts';
import type { ServerClock } from './server-clock.ts';
import type { Answer, Options, Platform, Reply } from './types.ts';

export interface Outcome {
  readonly kind:
    | 'ok'
    /** The server refused this request for what it says: 400 or 413. */
    | 'refused'
    /** The server did not do what was asked, now or ever with this key. */
    | 'declined'
    /** It may have done it. */
    | 'in_doubt';
  readonly reply: Reply | null;
  readonly body: Readonly<Record<string, unknown>>;
  /** The server's clock turned out to be another. */
  readonly clockChanged: boolean;
}

export class Connection {
  readonly #platform: Platform;
  readonly #clock: ServerClock;
  readonly #base: string;
  readonly #apiKey: string;
  #failures = 0;

  constructor(platform: Platform, clock: ServerClock, { host, apiKey }: Options) {
    this.#platform = platform;
    this.#clock = clock;
    this.#base = `${host.replace(/\/+$/, '').replace(/\/v1$/, '')}/v1`;
    this.#apiKey = apiKey;
  }

  /** @param proof a field that the server's own 2xx answer has; a captive portal's has not. */
  async ask(path: string, body: unknown, proof: string, timeoutMs = REQUEST_TIMEOUT_MS): Promise<Outcome> {
    const headers = { 'content-type': 'application/json', 'x-api-key': this.#apiKey };
    const answer = await this.#platform.send(this.#base + path, headers, JSON.stringify(body), timeoutMs);
    const reply = typeof answer === 'string' ? null : answer;
    const clockChanged = reply !== null && this.#clock.learn(reply.header('x-ratelimit-reset'));
    const fields = (typeof reply?.body === 'object' && reply.body) || {};
    return { kind: kindOf(answer, proof in fields), reply, body: fields as Outcome['body'], clockChanged };
  }

  /** How long to wait after the outcome; 0 for one that is final. */
  waitMs({ kind, reply }: Outcome): number {
    if (kind === 'ok' || kind === 'refused') {
      this.#failures = 0;
      return 0;
    }
    if (isHopeless(reply)) return BACKOFF_MAX_MS;
    const limit = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** Math.min(this.#failures++, 20));
    return retryAfterMs(reply) + Math.max(1, Math.round(this.#platform.random() * limit));
  }
}

export function retryAfterMs(reply: Reply | null): number {
  return Math.min(RETRY_AFTER_MAX_MS, Number(reply?.header('retry-after')) * 1_000 || 0);
}

/** A wrong key or a wrong address. */
export function isHopeless(reply: Reply | null): boolean {
  const status = reply?.status ?? 0;
  return status >= 300 && status < 500 && status !== 408 && status !== 429;
}

function kindOf(answer: Answer, isProven: boolean): Outcome['kind'] {
  if (answer === 'unsent') return 'declined';
  if (answer === 'lost') return 'in_doubt';
  const { status } = answer;
  if (status >= 200 && status < 300) return isProven ? 'ok' : 'in_doubt';
  if (status === 400 || status === 413) return 'refused';
  return status >= 500 || status === 408 ? 'in_doubt' : 'declined';
}
