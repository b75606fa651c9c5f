/**
 * A map bounded in entries and in bytes that evicts entries not used recently: second chance (Corbató 1968). A hit
 * costs one lookup and one flag, a third of exact LRU; the order is approximate when an entry must be evicted.
 */
export interface Sized {
  /** Approximate memory that it takes. */
  readonly bytes: number;
  /** Set by each hit; managed by the map. */
  isUsed: boolean;
}

const CHANGES_WITHOUT_EVICTION_MAX = 1_000;

export class BoundedMap<V extends Sized> {
  readonly #entries = new Map<string, V>();
  /**
   * Stays at the oldest entry: a new iterator would have to pass the places of all entries deleted before it, which V8
   * keeps until it resizes the map (40 µs for each eviction from 100,000 entries). Until it moves, it keeps every table
   * that V8 has replaced since, so it is dropped if nothing is evicted for some time.
   */
  #front: Iterator<[string, V]> | undefined;
  #changesSinceEviction = 0;
  readonly #entriesMax: number;
  readonly #bytesMax: number;
  readonly #onLetGo: ((entry: V) => void) | undefined;
  #bytes = 0;

  /** @param onLetGo called for each entry that is evicted, deleted or replaced. */
  constructor(entriesMax: number, bytesMax: number, onLetGo?: (entry: V) => void) {
    this.#entriesMax = entriesMax;
    this.#bytesMax = bytesMax;
    this.#onLetGo = onLetGo;
  }

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry !== undefined) entry.isUsed = true;
    return entry;
  }

  /** Reads an entry without counting it as a use. */
  peek(key: string): V | undefined {
    return this.#entries.get(key);
  }

  /** An entry larger than the whole map is not stored. */
  set(key: string, entry: V): void {
    this.delete(key);
    if (entry.bytes > this.#bytesMax) return;
    this.#entries.set(key, entry);
    this.#bytes += entry.bytes;
    while (this.#entries.size > this.#entriesMax || this.#bytes > this.#bytesMax) this.#evict();
  }

  delete(key: string): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    if (++this.#changesSinceEviction > CHANGES_WITHOUT_EVICTION_MAX) this.#front = undefined;
    this.#bytes -= entry.bytes;
    this.#onLetGo?.(entry);
    return this.#entries.delete(key);
  }

  /** Evicts the oldest entry that was not used since it reached the front. Used ones move to the back, once. */
  #evict(): void {
    this.#changesSinceEviction = 0;
    for (;;) {
      this.#front ??= this.#entries.entries();
      const next = this.#front.next();
      if (next.done === true) {
        this.#front = undefined;
        continue;
      }
      const [key, entry] = next.value;
      this.#entries.delete(key);
      if (!entry.isUsed) {
        this.#bytes -= entry.bytes;
        this.#onLetGo?.(entry);
        return;
      }
      entry.isUsed = false;
      this.#entries.set(key, entry);
    }
  }
}
