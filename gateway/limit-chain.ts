/**
 * What a request with an API key counts towards: a chain of limits, the narrowest first. A request that one of them
 * refuses does not count towards the next, so that one network can't use up what an app has.
 */
import { LRUCache } from 'lru-cache';
import type { CountedAddresses } from '#common/counted-addresses.ts';
import { DAY_MS } from '#common/durations.ts';
import { type ChargedNetwork, limitAddress, limitNetworks, shareNetworks } from '#common/http/peer.ts';
import type { LimitClass } from '#common/http/route.ts';
import { limitKey, WINDOW_MS } from '#common/rate-limit.ts';

/** New links of an app per day by its API key. Postgres counts them (pg-migrations/0980_sdk_links_per_day.sql). */
export const SDK_LINKS_PER_DAY = 10_000;
const CHAINS_MAX = 10_000;
/** The part of a network's share that each process grants by itself. */
const OWN_PART = 0.05;

export interface Level {
  /** The key in Redis is `head`, the app's id if it is a limit of an app, and `tail`. */
  readonly head: string;
  readonly tail: string;
  readonly isOfApp: boolean;
  /** Requests per window. */
  readonly limit: number;
  readonly windowMs: number;
}

export interface Chain {
  readonly limitClass: LimitClass;
  readonly levels: readonly Level[];
  /** The level that the X-RateLimit headers of an accepted request describe. */
  readonly shown: number;
  /**
   * Set if the levels before the last one are parts of networks: the chain of the last one alone, and how many requests of
   * each network every process charges only to that one. Most networks never send more, and counting all of them in Redis
   * would cost several times as much as everything else that is done for a key.
   */
  readonly whole?: {
    readonly chain: Chain;
    readonly networks: readonly { readonly name: string; readonly requests: number }[];
  };
}

export function levelKey({ head, tail, isOfApp }: Level, appId: string): string {
  return isOfApp ? head + appId + tail : head;
}

export class LimitChains {
  readonly #limits: Readonly<Record<LimitClass, number>>;
  readonly #addresses: CountedAddresses;
  readonly #known = new LRUCache<string, Chain>({ max: CHAINS_MAX });
  readonly #wholes = new Map<LimitClass, Chain>();

  /** @param limits requests per minute of each class. */
  constructor(limits: Readonly<Record<LimitClass, number>>, addresses: CountedAddresses) {
    this.#limits = limits;
    this.#addresses = addresses;
  }

  /** All requests of one class from one network have the same chain object while it is cached. */
  of(limitClass: LimitClass, ip: string): Chain {
    const isOfApp = limitClass === 'match' || limitClass === 'events';
    const name = `${limitClass} ${isOfApp ? shareNetworks(ip)[0]?.subject : limitAddress(ip)}`;
    let chain = this.#known.get(name);
    if (!chain) {
      chain = this.#chain(limitClass, ip);
      this.#known.set(name, chain);
    }
    return chain;
  }

  #chain(limitClass: LimitClass, ip: string): Chain {
    const limit = this.#limits[limitClass];
    switch (limitClass) {
      case 'match':
      case 'events': {
        const head = limitKey(limitClass, '');
        const shares = this.#ofNetworks(shareNetworks(ip), { head, limit, windowMs: WINDOW_MS });
        const own = shares.map((share) => Math.floor(share.limit * OWN_PART));
        // With one process, a network gets its share exactly.
        const rests = shares.map((share, at) => ({ ...share, limit: share.limit - (own[at] ?? 0) }));
        const chain = this.#whole(limitClass);
        const networks = shares.map(({ tail }, at) => ({ name: `${limitClass}${tail}`, requests: own[at] ?? 0 }));
        return { limitClass, levels: [...rests, ...chain.levels], shown: rests.length, whole: { chain, networks } };
      }
      case 'links': {
        const minute = { head: limitKey('links', ''), limit, windowMs: WINDOW_MS };
        const day = { head: 'limit:links_day:', limit: SDK_LINKS_PER_DAY, windowMs: DAY_MS };
        const levels = [...this.#ofNetworks(limitNetworks(ip), minute), ...this.#ofNetworks(shareNetworks(ip), day)];
        return { limitClass, levels, shown: 0 };
      }
      case 'general':
      case 'auth': {
        const head = limitKey('general', this.#addresses.nameOf(limitAddress(ip)));
        const level = { head, tail: '', isOfApp: false, limit: this.#limits.general, windowMs: WINDOW_MS };
        return { limitClass, levels: [level], shown: 0 };
      }
    }
  }

  /** One object for each class, so that all requests of a key that have this chain share a group. */
  #whole(limitClass: LimitClass): Chain {
    let chain = this.#wholes.get(limitClass);
    if (!chain) {
      const head = limitKey(limitClass, '');
      const level = { head, tail: '', isOfApp: true, limit: this.#limits[limitClass], windowMs: WINDOW_MS };
      chain = { limitClass, levels: [level], shown: 0 };
      this.#wholes.set(limitClass, chain);
    }
    return chain;
  }

  #ofNetworks(networks: readonly ChargedNetwork[], whole: Pick<Level, 'head' | 'limit' | 'windowMs'>): Level[] {
    return networks.map(({ subject, factor }) => ({
      ...whole,
      tail: `:${this.#addresses.nameOf(subject)}`,
      isOfApp: true,
      limit: Math.ceil(whole.limit * factor),
    }));
  }
}
