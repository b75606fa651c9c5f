/**
 * Snapshots by key in the memory of this process; `snapshot-reader.ts` reads missing ones.
 *
 * An entry is in one of four states:
 *   fresh    checked within `freshMs`, and since announcements were last missed: returned immediately
 *   suspect  older: the request waits for a lookup, at most `staleWaitMs`; an entry announced as changed is
 *            looked up immediately, without that bound on the wait
 *   stale    suspect, and the stores do not answer: still returned, for `staleMaxMs`, with a lookup in the background
 *   absent   a negative answer, cached separately so that a scan of unknown keys can't evict entries in use
 *
 * Invariants:
 * - One lookup in flight per key.
 * - An entry counts as checked from the moment its lookup started, so that a change during a lookup is never lost.
 * - `get` creates no promise and parses nothing.
 */
import { BoundedMap, type Sized } from '#common/bounded-map.ts';
import { isPaused } from '#common/clock.ts';
import { TransientMap } from '#common/transient-map.ts';
import { newReaderCounters, SnapshotReader, type SnapshotRequest } from './snapshot-reader.ts';
import { type SnapshotCacheOptions, snapshotLimits } from './snapshot-source.ts';

/** What an entry takes besides its text: objects, map slots. */
const entryBytes = 300;

/** A snapshot in memory. A caller may hold it to save the lookup, but must check `isCurrent` before each use. */
export interface CachedSnapshot<T> extends Sized {
  readonly value: T | null;
  checkedMs: number;
}

interface Entry<T> extends CachedSnapshot<T> {
  /** After a failed lookup, the entry is returned without another attempt until this time. */
  retryMs: number;
}

interface Lookup<T> extends SnapshotRequest {
  readonly promise: Promise<T | null | undefined>;
  readonly settle: (value: T | null | undefined) => void;
  /** Returned if the stores do not answer. */
  stale: Entry<T> | undefined;
  isChanged: boolean;
}

export class SnapshotCache<T extends object> {
  /** Since the start of the process. */
  readonly counters = {
    process_hits: 0,
    stale: 0,
    last_resort_hits: 0,
    unavailable: 0,
    ...newReaderCounters(),
  };
  readonly #options: SnapshotCacheOptions<T>;
  readonly #present: BoundedMap<Entry<T>>;
  readonly #absent: BoundedMap<Entry<T>>;
  readonly #lookups = new TransientMap<string, Lookup<T>>();
  readonly #reader: SnapshotReader<T, Lookup<T>>;
  #freshMs: number = snapshotLimits.freshUnsubscribedMs;
  #validSinceMs = 0;
  #wasHeard = false;
  #sweeper: NodeJS.Timeout | undefined;

  constructor(options: SnapshotCacheOptions<T>) {
    this.#options = options;
    this.#reader = new SnapshotReader(options, this.counters, {
      found: (lookup, value, json) => this.#finish(lookup, value, json),
      failed: (lookup) => this.#fail(lookup),
    });
    // An evicted entry no longer receives changes, so callers that still hold it must not treat it as fresh.
    this.#present = new BoundedMap(options.entriesMax, options.bytesMax, (entry) => {
      entry.checkedMs = 0;
    });
    this.#absent = new BoundedMap(Math.min(snapshotLimits.absentMax, options.entriesMax), options.bytesMax);
  }

  get size(): number {
    return this.#present.size;
  }

  /** Lookups that wait for a store. */
  get waiting(): number {
    return this.#lookups.size;
  }

  /** The snapshot, null if there is none, undefined if a lookup is necessary (`load`). */
  get(key: string, nowMs: number): T | null | undefined {
    const entry = this.#present.get(key) ?? this.#absent.get(key);
    if (entry === undefined) return undefined;
    if (this.#isFresh(entry, nowMs)) {
      this.counters.process_hits++;
      return entry.value;
    }
    if (isPaused(nowMs, entry.retryMs) && this.#isUsable(entry, nowMs)) {
      this.counters.stale++;
      return entry.value;
    }
    // Postgres did not answer last time, so requests do not wait for it now.
    if (this.#reader.isPostgresResting && this.#isUsable(entry, nowMs)) {
      void this.load(key);
      this.counters.stale++;
      return entry.value;
    }
    return undefined;
  }

  /** The entry of a fresh snapshot, which a caller may hold and check with `isCurrent`. */
  keep(key: string, nowMs: number): CachedSnapshot<T> | undefined {
    const entry = this.#present.peek(key);
    return entry !== undefined && this.#isFresh(entry, nowMs) ? entry : undefined;
  }

  /** Whether a held entry is still what `get` would return. Counts as a use. */
  isCurrent(kept: CachedSnapshot<T>, nowMs: number): boolean {
    if (!this.#isWithin(kept.checkedMs, this.#freshMs, nowMs)) return false;
    kept.isUsed = true;
    this.counters.process_hits++;
    return true;
  }

  /** As `get`, but waits for the stores; undefined if none of them answers and nothing is cached. Never rejects. */
  load(key: string): Promise<T | null | undefined> {
    const running = this.#lookups.get(key);
    if (running !== undefined) return running.promise;
    const nowMs = this.#options.clock();
    const known = this.#present.get(key) ?? this.#absent.get(key);
    const stale = known !== undefined && this.#isUsable(known, nowMs) ? known : undefined;
    if (this.#lookups.size >= snapshotLimits.lookupsMax) {
      this.counters[stale === undefined ? 'unavailable' : 'stale']++;
      return Promise.resolve(stale?.value);
    }
    let settle: Lookup<T>['settle'] = () => {};
    const promise = new Promise<T | null | undefined>((done) => {
      settle = done;
    });
    const lookup: Lookup<T> = { key, startedMs: nowMs, promise, settle, stale, isChanged: false };
    this.#lookups.set(key, lookup);
    this.#reader.read(lookup);
    this.#sweeper ??= setInterval(() => this.#sweep(), snapshotLimits.staleWaitMs / 2).unref();
    return promise;
  }

  /** Announced as changed: the old value is no longer returned, and the new one is looked up while the stores are available. */
  changed(key: string): void {
    this.#absent.delete(key);
    const entry = this.#present.peek(key);
    if (entry !== undefined) {
      entry.checkedMs = 0;
      entry.retryMs = 0;
    }
    const lookup = this.#lookups.get(key);
    if (lookup !== undefined) {
      lookup.isChanged = true;
      // In an outage the old value may still be right; after a change it is certainly wrong, so waiters do not get it.
      lookup.stale = undefined;
    } else if (entry !== undefined) {
      void this.load(key);
    }
  }

  /** Whether announcements arrive. When they arrive again, every older entry is suspect. */
  setSubscribed(isSubscribed: boolean): void {
    this.#freshMs = isSubscribed ? snapshotLimits.freshMs : snapshotLimits.freshUnsubscribedMs;
    if (!isSubscribed) return;
    this.#validSinceMs = this.#options.clock();
    // If Redis was unavailable, it may have missed changes too; its older contents are trusted only on the first start.
    if (this.#wasHeard) this.#reader.trustedSinceMs = this.#validSinceMs;
    this.#wasHeard = true;
  }

  #isFresh(entry: Entry<T>, nowMs: number): boolean {
    const freshMs = entry.value === null ? Math.min(this.#freshMs, snapshotLimits.absentFreshMs) : this.#freshMs;
    return this.#isWithin(entry.checkedMs, freshMs, nowMs);
  }

  /** A time in the future is of a clock that has been set back since: such a check has no known age. */
  #isWithin(checkedMs: number, freshMs: number, nowMs: number): boolean {
    const ageMs = nowMs - checkedMs;
    if (ageMs >= freshMs || ageMs < 0) return false;
    return checkedMs >= this.#validSinceMs || this.#validSinceMs > nowMs;
  }

  #isUsable(entry: Entry<T>, nowMs: number): boolean {
    return (
      entry.value !== null && Math.abs(nowMs - Math.max(entry.checkedMs, entry.retryMs)) < snapshotLimits.staleMaxMs
    );
  }

  #finish(lookup: Lookup<T>, value: T | null, json: string): void {
    const bytes = 2 * (json.length + lookup.key.length) + entryBytes;
    const entry = { value, checkedMs: lookup.isChanged ? 0 : lookup.startedMs, retryMs: 0, bytes, isUsed: false };
    if (value === null) {
      this.#present.delete(lookup.key);
      this.#absent.set(lookup.key, entry);
    } else {
      this.#absent.delete(lookup.key);
      this.#present.set(lookup.key, entry);
    }
    // A value read before the change must not be stored elsewhere as newer than the change.
    if (!lookup.isChanged) this.#options.onChecked?.(lookup.key, value === null ? null : json);
    this.#end(lookup, value);
    if (lookup.isChanged) void this.load(lookup.key);
  }

  /** No store answered: returns the cached value, or otherwise the one from the last-resort cache. */
  async #fail(lookup: Lookup<T>): Promise<void> {
    const retryMs = this.#options.clock() + snapshotLimits.retryMs;
    if (lookup.stale !== undefined) {
      lookup.stale.retryMs = retryMs;
      this.counters.stale++;
      this.#end(lookup, lookup.stale.value);
      return;
    }
    const json = await this.#options.lastResort?.(lookup.key).catch(() => undefined);
    const value = json === undefined ? undefined : this.#options.source.decode(json);
    // A lookup that started before a change may have found the old value, so it is repeated.
    if (value === undefined || json === undefined || lookup.isChanged) {
      this.counters.unavailable++;
      this.#end(lookup, undefined);
      return;
    }
    this.counters.last_resort_hits++;
    const bytes = 2 * (json.length + lookup.key.length) + entryBytes;
    this.#present.set(lookup.key, { value, checkedMs: 0, retryMs, bytes, isUsed: false });
    this.#end(lookup, value);
  }

  #end(lookup: Lookup<T>, value: T | null | undefined): void {
    lookup.settle(value);
    if (this.#lookups.get(lookup.key) === lookup) this.#lookups.delete(lookup.key);
    if (this.#lookups.size > 0) return;
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }

  /** Returns cached values to callers that have waited long enough, and gives up on lookups that take too long. */
  #sweep(): void {
    const nowMs = this.#options.clock();
    for (const lookup of this.#lookups.values()) {
      const waitedMs = nowMs - lookup.startedMs;
      if (waitedMs < snapshotLimits.staleWaitMs) return;
      if (lookup.stale !== undefined) {
        lookup.stale.retryMs = nowMs + snapshotLimits.retryMs;
        lookup.settle(lookup.stale.value);
      }
      if (waitedMs >= snapshotLimits.lookupMs + 2 * snapshotLimits.staleWaitMs) void this.#fail(lookup);
    }
  }
}
