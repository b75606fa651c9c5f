/**
 * A map for entries that are added and deleted thousands of times per second: open requests, running lookups.
 *
 * A plain Map is correct, but slow in a way that no profile shows. V8 links each table that a Map or Set outgrows to
 * the next one, also when deleted entries have filled it. Once one such table is in the old generation, all later ones,
 * and the entries that they had, live until the next full collection: a sixth of all allocations of the gateway were
 * promoted that way, each request with everything that it references. So the map is replaced by a new, unlinked one
 * every few hundred deletions.
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
    // A new map costs a copy of the remaining entries, so it is created only after as many entries were deleted.
    if (this.#deletions < DELETIONS_MAX || this.#deletions < this.#entries.size) return;
    this.#entries = this.#entries.size === 0 ? new Map() : new Map(this.#entries);
    this.#deletions = 0;
  }

  /** Oldest first. Entries that are deleted during the iteration may still be returned. */
  values(): Iterable<V> {
    return this.#entries.values();
  }
}
