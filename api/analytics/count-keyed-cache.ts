/**
 * Caches figures of a scope until its number of records changes. Records are only ever added, so an equal count means
 * equal records. Callers have just counted the records, which costs far less than counting unique visitors or a
 * breakdown, so no figure is older than that count.
 */
import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Scope } from '#clickhouse/queries/scope.ts';
import { HOUR_MS } from '#common/durations.ts';

/** Entries expire after this time, because some changes, such as repaired records, do not change the count. */
const KEPT_MS = HOUR_MS;

interface Kept<Figure> {
  readonly count: number;
  readonly figure: Figure;
  /** Whether the count was unchanged at the last lookup. */
  readonly isAtRest: boolean;
}

export class CountKeyedCache<Figure> {
  readonly #kept: LRUCache<string, Kept<Figure>>;

  /** @param max maximum total size; each figure has the size that `sizeOf` returns, 1 by default. */
  constructor(max: number, sizeOf: (figure: Figure) => number = () => 1) {
    this.#kept = new LRUCache<string, Kept<Figure>>({
      max,
      maxSize: max,
      sizeCalculation: ({ figure }) => Math.max(1, sizeOf(figure)),
      ttl: KEPT_MS,
    });
  }

  /** The figure if it was cached with the same count, otherwise undefined. */
  get(key: string, count: number): Figure | undefined {
    const kept = this.#kept.get(key);
    return kept?.count === count ? kept.figure : undefined;
  }

  /** @param count the number of records from which the figure was computed. */
  put(key: string, count: number, figure: Figure): void {
    const before = this.#kept.get(key);
    this.#kept.set(key, { count, figure, isAtRest: before === undefined || before.count === count });
  }

  /**
   * Whether the cached figure is probably still valid, so that callers should wait for the count before they query the
   * figure.
   */
  isAtRest(key: string): boolean {
    return this.#kept.get(key)?.isAtRest === true;
  }
}

/** A cache key for the figures of a scope; `parts` distinguish several figures of one scope. */
export function keyOfScope(scope: Scope, ...parts: readonly string[]): string {
  const { organization_ids, start_ms, end_ms, filters, include_bots, tags } = scope;
  const text = JSON.stringify([[...organization_ids].sort(), start_ms, end_ms, filters, include_bots, tags, parts]);
  return createHash('sha256').update(text).digest('base64');
}
