/**
 * A map of what is added and deleted thousands of times a second: open requests, running look-ups.
 *
 * A plain Map is correct, but slow in a way that no profile shows. V8 chains each table that a Map or a Set outgrows to
 * the next, also when deleted entries have used it up. Once one such table is in the old generation, all later ones,
 * and the entries they had then, live until the next full collection: a sixth of all allocations of the SDK edge were
 * promoted that way, each request with everything it references. So the map is replaced by a new one, to which no chain
 * leads, every few hundred deletions.
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
    // A new map costs a copy of the remaining entries, so it is made only after as many were deleted.
    if (this.#deletions < DELETIONS_MAX || this.#deletions < this.#entries.size) return;
    this.#entries = this.#entries.size === 0 ? new Map() : new Map(this.#entries);
    this.#deletions = 0;
  }

  /** Oldest first. Entries deleted meanwhile may still be returned. */
  values(): Iterable<V> {
    return this.#entries.values();
  }
}
