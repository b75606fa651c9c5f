/**
 * What a proxy's health check of this port gets: whether it may send requests here. A proxy cannot repeat a request with a body once a
 * connection was refused, so it must know before the listener closes.
 */
import { sleep, systemTime } from '#common/time.ts';
import type { HttpRequest, HttpResponse } from './uws.ts';

/** Several times the interval of deploy/single/Caddyfile. */
const ANNOUNCE_MS = 1_000;
/** A proxy that checks asks again within this time. */
const CHECKED_WITHIN_MS = 10_000;

export function isHealthCheck(req: HttpRequest): boolean {
  return req.getUrl() === '/healthz' && req.getMethod() === 'get';
}

export class PortHealth {
  #askedMs = Number.NEGATIVE_INFINITY;
  #isStopping = false;

  /** Charged to no limit, and not counted with the requests. */
  answer(res: HttpResponse, closesConnection: boolean): void {
    this.#askedMs = performance.now();
    const [status, body] = this.#isStopping ? ['503 Service Unavailable', 'stopping'] : ['200 OK', 'ok'];
    res.cork(() => {
      res
        .writeStatus(status)
        .writeHeader('Content-Type', 'text/plain')
        .writeHeader('X-Content-Type-Options', 'nosniff');
      res.writeHeader('Cache-Control', 'no-store').end(body, closesConnection);
    });
  }

  /** From now on, checks fail. Resolves once a proxy that checks must have seen it; at once if none does. */
  async announceStop(): Promise<void> {
    this.#isStopping = true;
    if (performance.now() - this.#askedMs < CHECKED_WITHIN_MS) await sleep(systemTime, ANNOUNCE_MS);
  }
}
