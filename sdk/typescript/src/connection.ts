/** Sends requests to the server and decides after each answer how long to wait: full jitter, Retry-After, or the longest wait for what only a person can mend. */
import { BACKOFF_MAX_MS, BACKOFF_MIN_MS, REQUEST_TIMEOUT_MS, RETRY_AFTER_MAX_MS } from './limits.ts';
import type { Answer, Outcome, Platform } from './platform.ts';
import type { ServerClock } from './server-clock.ts';
import type { Options } from './types.ts';

export class Connection {
  readonly #platform: Platform;
  readonly #clock: ServerClock;
  readonly #base: string;
  readonly #apiKey: string;
  #failures = 0;

  constructor(platform: Platform, clock: ServerClock, { host, apiKey }: Options) {
    this.#platform = platform;
    this.#clock = clock;
    this.#base = `${host.replace(/(\/v1)?\/*$/, '')}/v1`;
    this.#apiKey = apiKey;
  }

  /** @param proof a field that the server's own 2xx answer has; a captive portal's has not. */
  async ask(path: string, fields: object, proof: string, timeoutMs = REQUEST_TIMEOUT_MS): Promise<Outcome> {
    const headers = { 'content-type': 'application/json', 'x-api-key': this.#apiKey };
    const answer = await this.#platform.send(this.#base + path, headers, JSON.stringify(fields), timeoutMs);
    const reply = typeof answer === 'string' ? null : answer;
    const header = (name: string) => Number(reply?.header(name)) * 1_000 || 0;
    const body: Outcome['body'] = Object(reply?.body);
    return {
      kind: kindOf(answer, proof in body),
      reply,
      body,
      retryAfterMs: Math.min(RETRY_AFTER_MAX_MS, header('retry-after')),
      clockChanged: this.#clock.learn(header('x-ratelimit-reset')),
    };
  }

  /** How long to wait after the outcome; 0 for one that is final. */
  waitMs({ kind, retryAfterMs }: Outcome): number {
    if (kind === 'ok' || kind === 'refused') {
      this.#failures = 0;
      return 0;
    }
    if (kind === 'hopeless') return BACKOFF_MAX_MS;
    const limit = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** this.#failures++);
    return retryAfterMs + (Math.round(this.#platform.random() * limit) || 1);
  }
}

function kindOf(answer: Answer, isProven: boolean): Outcome['kind'] {
  if (answer === 'unsent') return 'declined';
  const status = answer === 'lost' ? 500 : answer.status;
  if (status < 300) return isProven ? 'ok' : 'in_doubt';
  if (status === 400 || status === 413) return 'refused';
  if (status >= 500 || status === 408) return 'in_doubt';
  return status === 429 ? 'declined' : 'hopeless';
}
