/**
 * Rate limits per minute: a fixed window of 60 s that starts with the first request of a key, stored in Redis so that
 * all processes share the count. One script call per request. While Redis is unavailable, authentication is rejected
 * (password guesses must not become unlimited); the rest is counted in this process.
 *
 * Written by hand, because the counting is part of other scripts: the gateway checks a key and its limit in one round trip.
 */
import { LRUCache } from 'lru-cache';
import { type Clock, isPaused, systemClock } from './clock.ts';
import type { CountedAddresses } from './counted-addresses.ts';
import type { Quota } from './http/exchange.ts';
import { type ChargedNetwork, limitAddress, limitNetworks } from './http/peer.ts';
import { type Rejection, rateLimited, unavailable } from './http/rejection.ts';
import type { LimitClass } from './http/route.ts';
import type { ProcessConfig } from './process/config-roles.ts';
import type { Script } from './stores/redis.ts';

export const WINDOW_MS = 60_000;
/** Maximum keys counted in this process while Redis is unavailable; beyond it the least recently seen are dropped. */
const LOCAL_WINDOWS_MAX = 100_000;
/** After a failure Redis is not queried for this long, so that not every request waits for a hanging one. */
const REDIS_PAUSE_MS = 1_000;

/**
 * The counting as a Lua function, for scripts that do more in the same round trip. `take(key, requests, reset_ms,
 * window_ms)` adds the requests and returns the new count and the end of the window (epoch ms); `reset_ms` is the end
 * that a window starting now would have.
 */
export const takeLua = `
local function take(key, requests, reset_ms, window_ms)
  local count = redis.call('HINCRBY', key, 'count', requests)
  if count > tonumber(requests) then return count, redis.call('HGET', key, 'reset_ms') end
  redis.call('HSET', key, 'reset_ms', reset_ms)
  redis.call('PEXPIRE', key, window_ms)
  return count, reset_ms
end
`;

/** One script: KEYS[1] the counted subject; ARGV[1] the end of a window that starts now, ARGV[2] its length in ms. */
export const limitScript = `${takeLua}
local count, reset_ms = take(KEYS[1], 1, ARGV[1], ARGV[2])
return {count, reset_ms}
`;

export interface Window {
  readonly count: number;
  readonly resetMs: number;
}

/** The key in Redis under which a subject (the name of an address, a user id, an app id) is counted. */
export function limitKey(limitClass: LimitClass, subject: string): string {
  return `limit:${limitClass}:${subject}`;
}

/** The result of a script that ends with `take`, as numbers. @throws if it is anything else. */
export function windowOf(answer: unknown): Window {
  if (!Array.isArray(answer)) throw new Error('the limit script answered no list');
  const count = Number(answer[0]);
  const resetMs = Number(answer[1]);
  if (!Number.isFinite(count) || !Number.isFinite(resetMs)) throw new Error('the limit script answered no numbers');
  return { count, resetMs };
}

/** A counted request: its limit headers, and the rejection if it exceeded the limit. */
export interface Charge {
  readonly quota: Quota;
  readonly rejection: Rejection | null;
}

/** The verdict on a counted request. Retry-After is rounded up: after it, the window is over. */
export function chargeOf(limit: number, window: Window, nowMs: number, windowMs = WINDOW_MS): Charge {
  // Not later than a whole window, whatever the clock of the machine that started it said.
  const resetMs = Math.min(window.resetMs, nowMs + windowMs);
  const quota = {
    limit,
    remaining: Math.max(0, limit - window.count),
    resetEpochSeconds: Math.ceil(resetMs / 1000),
  };
  if (window.count <= limit) return { quota, rejection: null };
  return { quota, rejection: rateLimited(Math.max(1, Math.ceil((resetMs - nowMs) / 1000))) };
}

/** The same windows, in this process only. */
export class LocalWindows {
  readonly #windows = new LRUCache<string, { count: number; resetMs: number }>({ max: LOCAL_WINDOWS_MAX });

  take(key: string, nowMs: number, windowMs = WINDOW_MS): Window {
    let window = this.#windows.get(key);
    // A clock that was set back ends a window.
    if (!window || nowMs >= window.resetMs || nowMs < window.resetMs - windowMs) {
      window = { count: 0, resetMs: nowMs + windowMs };
      this.#windows.set(key, window);
    }
    window.count++;
    return window;
  }
}

export class RateLimiter {
  readonly #take: Script;
  readonly #limits: Readonly<Record<LimitClass, number>>;
  readonly #addresses: CountedAddresses;
  readonly #clock: Clock;
  readonly #local = new LocalWindows();
  /** Subjects with no requests left, and until when. */
  readonly #spent = new LRUCache<string, number>({ max: LOCAL_WINDOWS_MAX });
  #redisPausedUntilMs = 0;

  /**
   * @param take limitScript, defined on a Redis: `redis.script(limitScript)`. @param limits requests per minute of each
   * class.
   */
  constructor(
    take: Script,
    limits: Readonly<Record<LimitClass, number>>,
    addresses: CountedAddresses,
    clock: Clock = systemClock,
  ) {
    this.#take = take;
    this.#limits = limits;
    this.#addresses = addresses;
    this.#clock = clock;
  }

  /**
   * Counts one request against an address and the networks around it (limitNetworks), starting with the narrowest. A
   * rejected request does not count against the wider ones, so that a single address does not use up its neighbors'
   * share. Returns the smallest remaining quota.
   */
  async chargeNetworks(limitClass: LimitClass, ip: string): Promise<Charge> {
    let scarcest: Charge | undefined;
    for (const { subject, factor } of limitNetworks(ip)) {
      const charge = await this.#charge(limitClass, { subject: this.#addresses.nameOf(subject), factor });
      if (charge.rejection) return charge;
      if (!scarcest || charge.quota.remaining < scarcest.quota.remaining) scarcest = charge;
    }
    if (!scarcest) throw new Error('an address has no network to charge');
    return scarcest;
  }

  /** Counts one request against an address, or against the /64 of an IPv6 address. */
  chargeAddress(limitClass: LimitClass, ip: string): Promise<Charge> {
    return this.charge(limitClass, this.#addresses.nameOf(limitAddress(ip)));
  }

  /** Counts one request in one class. The subject is a user id or an app id. */
  charge(limitClass: LimitClass, subject: string): Promise<Charge> {
    return this.#charge(limitClass, { subject, factor: 1 });
  }

  /** Counts one request against a separate limit, besides its class. */
  chargeApart(name: string, subject: string, limit: number): Promise<Charge> {
    return this.#count(`limit:${name}:${subject}`, limit, false);
  }

  #charge(limitClass: LimitClass, { subject, factor }: ChargedNetwork): Promise<Charge> {
    return this.#count(limitKey(limitClass, subject), this.#limits[limitClass] * factor, limitClass === 'auth');
  }

  async #count(key: string, limit: number, needsRedis: boolean): Promise<Charge> {
    const nowMs = this.#clock();
    if (!isPaused(nowMs, this.#redisPausedUntilMs)) {
      try {
        return this.#judge(limit, key, windowOf(await this.#take([key], [nowMs + WINDOW_MS, WINDOW_MS])), nowMs);
      } catch {
        this.#redisPausedUntilMs = this.#clock() + REDIS_PAUSE_MS;
      }
    }
    if (needsRedis) {
      const rejection = unavailable();
      // Until the client may retry, no requests remain; the headers say so.
      const resetEpochSeconds = Math.ceil(nowMs / 1000) + (rejection.retryAfterSeconds ?? 0);
      return { quota: { limit, remaining: 0, resetEpochSeconds }, rejection };
    }
    return this.#judge(limit, key, this.#local.take(key, nowMs), nowMs);
  }

  /**
   * The rejection of a request that would exceed its address's limit, as far as this process knows; otherwise null. It
   * sends no request to Redis and counts nothing; for routes that do expensive work before they count the request.
   */
  spent(limitClass: LimitClass, ip: string): (Charge & { readonly rejection: Rejection }) | null {
    const subject = this.#addresses.nameOf(limitAddress(ip));
    const nowMs = this.#clock();
    const resetMs = this.#spent.get(limitKey(limitClass, subject)) ?? 0;
    if (!isPaused(nowMs, resetMs)) return null;
    const limit = this.#limits[limitClass];
    const { quota, rejection } = chargeOf(limit, { count: limit + 1, resetMs }, nowMs);
    return rejection && { quota, rejection };
  }

  #judge(limit: number, key: string, window: Window, nowMs: number): Charge {
    // At most one window, whatever the clock of the machine that started it said.
    if (window.count >= limit) this.#spent.set(key, Math.min(window.resetMs, nowMs + WINDOW_MS));
    return chargeOf(limit, window, nowMs);
  }
}

/** The configured limits. */
export function configuredLimits(config: ProcessConfig<'api' | 'gateway'>): Record<LimitClass, number> {
  return {
    auth: config.RATE_LIMIT_AUTH,
    links: config.RATE_LIMIT_LINKS,
    match: config.RATE_LIMIT_MATCH,
    events: config.RATE_LIMIT_EVENTS,
    general: config.RATE_LIMIT_GENERAL,
  };
}
