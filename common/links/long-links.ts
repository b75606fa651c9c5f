/**
 * Links for Firebase long links, each created by its first visit. A function in Postgres checks, limits and creates
 * them, so that the redirector's Postgres role cannot write links directly.
 */
import type { Clock } from '#common/clock.ts';
import { newId } from '#common/ids.ts';
import { LocalWindows } from '#common/rate-limit.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { FoundLink, LinkCache } from './link-cache.ts';
import { type LinkedApp, linkKey } from './link-snapshot.ts';
import type { LongLink } from './long-link.ts';
import { lowerCode } from './short-code.ts';
import { within } from './snapshot-source.ts';

export const longLinkLimits = {
  /** Limit of new links per process; Postgres limits new links of all processes per day. */
  perAppAndMinuteMax: 300,
  makingMax: 8,
  makeMs: 1_000,
} as const;

export type LongLinkFinding =
  | { readonly kind: 'found'; readonly found: FoundLink }
  /** The link was deleted, so its parameters no longer lead anywhere. */
  | { readonly kind: 'deleted' }
  | { readonly kind: 'not_made'; readonly reason: 'not_wanted' | 'limit' | 'busy' | 'unavailable' };

type Outcome = 'made' | 'known' | 'deleted' | 'limit' | 'off';
type Making = Outcome | 'busy' | 'unavailable';

const make = 'SELECT signpost_make_long_link($1, $2, $3, $4) AS outcome';

export class LongLinks {
  readonly counters: Record<Making, number> = {
    made: 0,
    known: 0,
    deleted: 0,
    limit: 0,
    off: 0,
    busy: 0,
    unavailable: 0,
  };
  readonly #cache: Pick<LinkCache, 'find' | 'links'>;
  readonly #db: Pick<Queries, 'query'>;
  readonly #clock: Clock;
  readonly #windows = new LocalWindows();
  /** By key, so that concurrent first visits to one link share one request. */
  readonly #making = new Map<string, Promise<Making>>();

  constructor(cache: Pick<LinkCache, 'find' | 'links'>, db: Pick<Queries, 'query'>, clock: Clock) {
    this.#cache = cache;
    this.#db = db;
    this.#clock = clock;
  }

  /** Never rejects, and takes at most a lookup, `makeMs` and another lookup. @param mayMake false for bots, prefetches and HEAD. */
  async find(app: LinkedApp, long: LongLink, mayMake: boolean): Promise<LongLinkFinding> {
    const found = await this.#cache.find(app.host, long.code);
    if (found) return { kind: 'found', found };
    if (found === undefined) return { kind: 'not_made', reason: 'unavailable' };
    if (!mayMake) return { kind: 'not_made', reason: 'not_wanted' };
    const key = linkKey(app.host, app.codes_ignore_case ? lowerCode(long.code) : long.code);
    const making = this.#making.get(key) ?? this.#begin(key, app, long);
    const outcome = await making;
    switch (outcome) {
      case 'made':
      case 'known': {
        // The cache has just found that there is no such link.
        this.#cache.links.changed(key);
        const made = await this.#cache.find(app.host, long.code);
        return made ? { kind: 'found', found: made } : { kind: 'not_made', reason: 'unavailable' };
      }
      case 'deleted':
        return { kind: 'deleted' };
      case 'off':
        return { kind: 'not_made', reason: 'not_wanted' };
      default:
        return { kind: 'not_made', reason: outcome };
    }
  }

  #begin(key: string, app: LinkedApp, long: LongLink): Promise<Making> {
    const refused = this.#refusal(app);
    if (refused !== null) {
      this.counters[refused]++;
      return Promise.resolve(refused);
    }
    const making = within(this.#make(app, long), longLinkLimits.makeMs)
      .catch((): Making => 'unavailable')
      .then((outcome) => {
        this.counters[outcome]++;
        return outcome;
      })
      .finally(() => this.#making.delete(key));
    this.#making.set(key, making);
    return making;
  }

  #refusal(app: LinkedApp): 'limit' | 'busy' | null {
    if (this.#making.size >= longLinkLimits.makingMax) return 'busy';
    const { count } = this.#windows.take(app.id, this.#clock());
    return count > longLinkLimits.perAppAndMinuteMax ? 'limit' : null;
  }

  async #make(app: LinkedApp, { code, fields }: LongLink): Promise<Outcome> {
    const values = [app.id, newId('lnk', this.#clock()), code, JSON.stringify(fields)];
    const [row] = await this.#db.query<{ outcome: Outcome }>(make, values);
    if (row === undefined) throw new Error('signpost_make_long_link returned nothing');
    return row.outcome;
  }
}
