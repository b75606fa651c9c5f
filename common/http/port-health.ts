/**
 * What a proxy's health check of this port gets: whether it may send requests here. A proxy cannot repeat a request with a body once a
 * connection was refused, so it must know before the listener closes.
 */
import { sleep, systemTime } from '#common/time.ts';
import type { Answer } from './route.ts';

export const HEALTH_PATH = '/healthz';
/** Several times the interval of deploy/single/Caddyfile. */
const ANNOUNCE_MS = 1_000;
/** A proxy that checks asks again within this time. */
const CHECKED_WITHIN_MS = 10_000;

export class PortHealth {
  #askedMs = Number.NEGATIVE_INFINITY;
  #isStopping = false;

  answer(): Answer {
    this.#askedMs = performance.now();
    return {
      status: this.#isStopping ? 503 : 200,
      contentType: 'text/plain',
      bytes: this.#isStopping ? 'stopping' : 'ok',
    };
  }

  /** From now on, checks fail. Resolves once a proxy that checks must have seen it; at once if none does. */
  async announceStop(): Promise<void> {
    this.#isStopping = true;
    if (performance.now() - this.#askedMs < CHECKED_WITHIN_MS) await sleep(systemTime, ANNOUNCE_MS);
  }
}
