/**
 * Accepts the device signals that a tap page sends, and stores them in Redis for as long as devices are matched to the
 * click by score. There is no other copy: if Redis is unavailable, the click is matched like one without a tap page.
 */
import type { Clock } from '#common/clock.ts';
import { HOUR_MS } from '#common/durations.ts';
import { limitAddress } from '#common/http/peer.ts';
import type { HttpResponse } from '#common/http/uws.ts';
import { objectIn } from '#common/json-object.ts';
import { readTapSignals, signalsKey } from '#common/links/tap-page.ts';
import { LocalWindows } from '#common/rate-limit.ts';
import type { Redis } from '#common/stores/redis.ts';
import type { Receiver, Sender } from './receiver.ts';
import type { SignalTokens } from './signal-token.ts';

export const BEACON_PATH = '/-/tap';
export const BEACON_BYTES_MAX = 1_024;
/** Maximum per minute, address and process: a phone sends one per page, and many phones may share an address. */
export const BEACONS_MAX = 300;

export const beaconOutcomes = ['kept', 'repeated', 'lost', 'invalid', 'too_large', 'rate_limited'] as const;
export type BeaconOutcome = (typeof beaconOutcomes)[number];

const statuses = {
  taken: '204 No Content',
  invalid: '400 Bad Request',
  too_large: '413 Payload Too Large',
  rate_limited: '429 Too Many Requests',
} as const;

export interface BeaconParts {
  readonly redis: Pick<Redis, 'commands'>;
  readonly tokens: SignalTokens;
  readonly clock: Clock;
}

export class SignalBeacon implements Receiver {
  readonly counters: Record<BeaconOutcome, number> = {
    kept: 0,
    repeated: 0,
    lost: 0,
    invalid: 0,
    too_large: 0,
    rate_limited: 0,
  };
  readonly #parts: BeaconParts;
  readonly #windows = new LocalWindows();

  constructor(parts: BeaconParts) {
    this.#parts = parts;
  }

  receive(res: HttpResponse, { ip }: Sender, isLast: () => boolean): void {
    let body = '';
    let isOver = false;
    res.onAborted(() => {
      isOver = true;
    });
    res.onData((chunk, isEnd) => {
      if (isOver) return;
      body += Buffer.from(chunk).toString('latin1');
      const isTooLarge = body.length > BEACON_BYTES_MAX;
      if (!isEnd && !isTooLarge) return;
      isOver = true;
      const nowMs = this.#parts.clock();
      const { count, resetMs } = this.#windows.take(limitAddress(ip), nowMs);
      const outcome = isTooLarge
        ? 'too_large'
        : count > BEACONS_MAX
          ? 'rate_limited'
          : this.#take(Buffer.from(body, 'latin1').toString(), nowMs);
      const retryAfterS = outcome === 'rate_limited' ? Math.ceil((resetMs - nowMs) / 1_000) : 0;
      if (outcome !== 'taken') this.counters[outcome]++;
      // The rest of an oversized body must not be read as a request, so the connection ends.
      res.cork(() => answer(res, statuses[outcome], retryAfterS, isTooLarge || isLast()));
    });
  }

  #take(text: string, nowMs: number): 'taken' | 'invalid' {
    const { tokens } = this.#parts;
    const { token, ...given } = objectIn(text);
    const click = typeof token === 'string' ? tokens.verify(token, nowMs) : null;
    const signals = click && readTapSignals(given);
    if (!click || !signals) return 'invalid';
    void this.#keep(click.click_id, JSON.stringify(signals), click.hours * HOUR_MS);
    return 'taken';
  }

  /** Only the first beacon of a click counts. */
  async #keep(clickId: string, json: string, ttlMs: number): Promise<void> {
    try {
      const reply = await this.#parts.redis.commands.set(signalsKey(clickId), json, 'PX', ttlMs, 'NX');
      this.counters[reply === null ? 'repeated' : 'kept']++;
    } catch {
      this.counters.lost++;
    }
  }
}

function answer(res: HttpResponse, status: string, retryAfterS: number, isLast: boolean): void {
  res.writeStatus(status).writeHeader('Cache-Control', 'no-store').writeHeader('X-Content-Type-Options', 'nosniff');
  if (retryAfterS > 0) res.writeHeader('Retry-After', String(retryAfterS));
  res.endWithoutBody(0, isLast);
}
