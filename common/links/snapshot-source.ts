/** The sources of a snapshot cache, and its timeouts and freshness limits. */
import type { Clock } from '#common/clock.ts';
import { DAY_MS } from '#common/durations.ts';

export const snapshotLimits = {
  /** How long an entry is trusted while changes are announced … */
  freshMs: 60_000,
  /** … and while announcements do not arrive. */
  freshUnsubscribedMs: 1_000,
  absentFreshMs: 5_000,
  staleMaxMs: DAY_MS,
  staleWaitMs: 250,
  lookupMs: 2_000,
  retryMs: 1_000,
  redisTtlMs: 300_000,
  markerMs: 10_000,
  queryIntervalMs: 10,
  keysPerQueryMax: 500,
  lookupsMax: 10_000,
  absentMax: 50_000,
} as const;

/** The marker in Redis under a key for a while after a change. */
export const changeMarker = '!';

/** The part of the Redis wrapper that the cache needs. */
export interface SharedStore {
  mget(keys: readonly string[]): Promise<readonly (string | null)[]>;
  /** Adds entries whose key does not exist yet; leaves the others unchanged. */
  addMissing(entries: readonly { key: string; value: string; ttlMs: number }[]): Promise<void>;
}

export interface SnapshotSource<T> {
  /** Prefix of the keys in Redis; changes with the shape of the snapshot. */
  readonly prefix: string;
  /** Encodes a snapshot as text … */
  readonly encode: (value: T) => string;
  /** … and decodes it; undefined if the text is invalid. */
  readonly decode: (text: string) => T | undefined;
  /** Authoritative. Keys without an entry in the answer do not exist. Rejects if the store can't be queried. */
  readonly read: (keys: readonly string[]) => Promise<ReadonlyMap<string, T>>;
}

export interface SnapshotCacheOptions<T> {
  readonly source: SnapshotSource<T>;
  readonly store: SharedStore;
  readonly clock: Clock;
  readonly entriesMax: number;
  readonly bytesMax: number;
  /** Called with each snapshot read from a store (null: none), so that it can be stored elsewhere too. */
  readonly onChecked?: (key: string, text: string | null) => void;
  /**
   * Called if no store answers and nothing is in memory. Returns the text that was passed to onChecked, if it is still
   * known.
   */
  readonly lastResort?: (key: string) => Promise<string | undefined>;
}

/** The promise, or a rejection after this many milliseconds. */
export async function within<R>(promise: Promise<R>, ms: number): Promise<R> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
