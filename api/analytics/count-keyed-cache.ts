/**
 * Caches figures of a scope until its number of records changes: records are only
 * ever added, so an equal count means equal records. Callers have just counted them, which costs far less
 * than unique visitors or a breakdown; no figure is older than that count.
 */
import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Scope } from '#clickhouse/queries/scope.ts';
import { HOUR_MS } from '#common/durations.ts';

/** Entries expire after this time, because a count does not show everything, such as repaired records. */
const KEPT_MS = HOUR_MS;

interface Kept<Figure> {
  readonly count: number;
  readonly figure: Figure;
  /** Whether the count was unchanged at the last look-up. */
  readonly isAtRest: boolean;
}

export class CountKeyedCache<Figure> {
  readonly #kept: LRUCache<string, Kept<Figure>>;

  /** @param max of all figures together, each as large as `sizeOf` says; 1 if absent. */
  constructor(max: number, sizeOf: (figure: Figure) => number = () => 1) {
    this.#kept = new LRUCache<string, Kept<Figure>>({
      max,
      maxSize: max,
      sizeCalculation: ({ figure }) => Math.max(1, sizeOf(figure)),
      ttl: KEPT_MS,
    });
  }

  /** Undefined unless it was cached with the same count. */
  get(key: string, count: number): Figure | undefined {
    const kept = this.#kept.get(key);
    return kept?.count === count ? kept.figure : undefined;
  }

  /** @param count of the records among which the figure was found. */
  put(key: string, count: number, figure: Figure): void {
    const before = this.#kept.get(key);
    this.#kept.set(key, { count, figure, isAtRest: before === undefined || before.count === count });
  }

  /** Whether the cached figure is probably still valid, so that it is worth waiting for the count before querying the figure. */
  isAtRest(key: string): boolean {
    return this.#kept.get(key)?.isAtRest === true;
  }
}

/** A key for the figures of a scope; further parts distinguish several of one scope. */
export function keyOfScope(scope: Scope, ...parts: readonly string[]): string {
  const { organization_ids, start_ms, end_ms, filters, include_bots, tags } = scope;
  const text = JSON.stringify([[...organization_ids].sort(), start_ms, end_ms, filters, include_bots, tags, parts]);
  return createHash('sha256').update(text).digest('base64');
}
