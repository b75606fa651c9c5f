/**
 * A map of what comes and goes thousands of times a second: open requests, running look-ups.
 *
 * A plain Map would do, and be slow in a way that no profile shows. V8 chains each table that a Map or a Set outgrows to the next;
 * outgrown it is too when deleted entries have used it up. Once one such table is old, all later ones, and what stood in them when
 * they were outgrown, live until the next full collection: a sixth of all that the SDK edge allocated became old that way, each
 * request with all that hung on it. So the map is replaced by a fresh one, which no chain leads to, every few hundred deletions.
 */
const DELETIONS_MAX = 256;

export class TransientMap<K, V> {
  #entries = new Map<K, V>();
  #deletions = 0;

  get size(): number {
    return this.#entries.size;
  }

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  set(key: K, value: V): void {
    this.#entries.set(key, value);
  }

  delete(key: K): void {
    if (!this.#entries.delete(key)) return;
    this.#deletions++;
    // A fresh one costs a copy of what is left: no more often than as many have gone.
    if (this.#deletions < DELETIONS_MAX || this.#deletions < this.#entries.size) return;
    this.#entries = this.#entries.size === 0 ? new Map() : new Map(this.#entries);
    this.#deletions = 0;
  }

  /** Oldest first. What is deleted meanwhile may still be given. */
  values(): Iterable<V> {
    return this.#entries.values();
  }
}
