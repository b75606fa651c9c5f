/**
 * Handles unknown codes of a host while its app is migrating from another service. The first visit asks the API over
 * Redis; the API asks that service and creates the link. The visit waits for up to `waitMs`; no other visits wait,
 * except those of the same code.
 */
import { LRUCache } from 'lru-cache';
import type { Clock } from '#common/clock.ts';
import { MINUTE_MS, SECOND_MS } from '#common/durations.ts';
import { askChannel, encodeAsk } from '#common/links/link-asks.ts';
import type { FoundLink, LinkCache, LinkWatcher } from '#common/links/link-cache.ts';
import { type LinkedApp, linkKey } from '#common/links/link-snapshot.ts';
import { LocalWindows } from '#common/rate-limit.ts';
import type { Redis } from '#common/stores/redis.ts';

export const askLimits = {
  /** Maximum wait for the answer of the API. The lookup of the new link follows. */
  waitMs: 1_500,
  /** Maximum codes being asked about, of all apps and of one, … */
  askingMax: 256,
  askingPerAppMax: 64,
  /** … and maximum visits that wait for them. */
  waitingMax: 2_000,
  perAppAndMinuteMax: 300,
  /** How long a code is not asked about again: after an answer without a link, and after no answer. */
  unknownMs: MINUTE_MS,
  unansweredMs: 15 * SECOND_MS,
  unknownMax: 50_000,
} as const;

interface Asking {
  readonly app_id: string;
  readonly found: Promise<FoundLink | null>;
  readonly answered: (isAnswered: boolean) => void;
}

export class AskedLinks implements LinkWatcher {
  readonly counters = { learned: 0, unknown: 0, unanswered: 0, limit: 0, unavailable: 0 };
  readonly #cache: Pick<LinkCache, 'find' | 'links' | 'isSubscribed'>;
  readonly #redis: { readonly commands: Pick<Redis['commands'], 'publish'> };
  readonly #clock: Clock;
  readonly #windows = new LocalWindows();
  readonly #asking = new Map<string, Asking>();
  readonly #unknown: LRUCache<string, true>;
  #waiting = 0;

  constructor(
    cache: Pick<LinkCache, 'find' | 'links' | 'isSubscribed'>,
    redis: { readonly commands: Pick<Redis['commands'], 'publish'> },
    clock: Clock,
  ) {
    this.#cache = cache;
    this.#redis = redis;
    this.#clock = clock;
    this.#unknown = new LRUCache({ max: askLimits.unknownMax, ttl: askLimits.unknownMs, perf: { now: clock } });
  }

  get waiting(): number {
    return this.#waiting;
  }

  /**
   * The link of a code that was not found. Null: there is none, as far as is known. Undefined: unknown, because this
   * visit may not ask.
   * @param mayAsk false for bots, prefetches and HEAD.
   */
  find(app: LinkedApp, code: string, mayAsk: boolean): Promise<FoundLink | null> | null | undefined {
    const key = linkKey(app.host, code);
    if (this.#unknown.has(key)) return null;
    if (!mayAsk) return undefined;
    const asking = this.#asking.get(key) ?? this.#begin(key, app, code);
    if (asking === null) return null;
    if (this.#waiting >= askLimits.waitingMax) return this.#refused('limit');
    this.#waiting++;
    return asking.found.finally(() => {
      this.#waiting--;
    });
  }

  asked(key: string): void {
    this.#asking.get(key)?.answered(true);
  }

  /** The app's settings may have changed. */
  changed(kind: 'link' | 'app'): void {
    if (kind === 'app') this.#unknown.clear();
  }

  missed(): void {
    this.#unknown.clear();
  }

  #begin(key: string, app: LinkedApp, code: string): Asking | null {
    if (!this.#cache.isSubscribed) return this.#refused('unavailable');
    let ofApp = 0;
    for (const { app_id } of this.#asking.values()) if (app_id === app.id) ofApp++;
    if (this.#asking.size >= askLimits.askingMax || ofApp >= askLimits.askingPerAppMax) return this.#refused('limit');
    const { count } = this.#windows.take(app.id, this.#clock());
    if (count > askLimits.perAppAndMinuteMax) return this.#refused('limit');
    let answered: Asking['answered'] = () => {};
    const answer = new Promise<boolean>((settle) => {
      answered = settle;
    });
    const timer = setTimeout(() => answered(false), askLimits.waitMs);
    const found = answer.then((isAnswered) => {
      clearTimeout(timer);
      return this.#end(key, app, code, isAnswered);
    });
    const asking = { app_id: app.id, found, answered };
    this.#asking.set(key, asking);
    const { organization_id, id: app_id, host } = app;
    this.#redis.commands.publish(askChannel, encodeAsk({ organization_id, app_id, host, code })).then(
      // No API process is subscribed.
      (receivers) => receivers === 0 && answered(false),
      () => answered(false),
    );
    return asking;
  }

  async #end(key: string, app: LinkedApp, code: string, isAnswered: boolean): Promise<FoundLink | null> {
    // The cache has just stored that there is no such link.
    this.#cache.links.changed(key);
    const found = (await this.#cache.find(app.host, code)) ?? null;
    this.#asking.delete(key);
    if (found !== null) this.counters.learned++;
    else {
      this.counters[isAnswered ? 'unknown' : 'unanswered']++;
      this.#unknown.set(key, true, { ttl: isAnswered ? askLimits.unknownMs : askLimits.unansweredMs });
    }
    return found;
  }

  #refused(why: 'limit' | 'unavailable'): null {
    this.counters[why]++;
    return null;
  }
}
