/**
 * Reads snapshots from the stores for all waiting requests: Redis once per turn of the event loop, then Postgres, at
 * most `1000 / queryIntervalMs` times per second, regardless of the number of unknown keys. A store that failed is not
 * queried for a while.
 *
 * Invariant: no outdated snapshot enters Redis after a change. A change leaves a marker for `markerMs`, longer than any
 * lookup may take, and entries are only added with SET NX, which fails while the marker exists.
 */
import { isPaused } from '#common/clock.ts';
import { sleep, systemTime } from '#common/time.ts';
import { changeMarker, type SnapshotCacheOptions, snapshotLimits, within } from './snapshot-source.ts';

/** How far a right clock may be ahead of another one. */
const skewMsMax = 60_000;

/** A key that is read. */
export interface SnapshotRequest {
  readonly key: string;
  readonly startedMs: number;
}

/** The callbacks of a request: exactly one of the two is called, once. */
export interface SnapshotReceiver<T, R extends SnapshotRequest> {
  /** @param value null: there is none. @param json its text; empty if there is none. */
  found(request: R, value: T | null, json: string): void;
  /** No store answered. */
  failed(request: R): Promise<void>;
}

export function newReaderCounters() {
  return { redis_hits: 0, postgres_hits: 0, absent: 0, queries: 0, redis_failures: 0, postgres_failures: 0 };
}

export class SnapshotReader<T extends object, R extends SnapshotRequest> {
  /** Entries in Redis that were checked before this time are not trusted. */
  trustedSinceMs = 0;
  readonly #options: Pick<SnapshotCacheOptions<T>, 'clock' | 'source' | 'store'>;
  readonly #counters: ReturnType<typeof newReaderCounters>;
  readonly #receiver: SnapshotReceiver<T, R>;
  #forRedis: R[] = [];
  #forPostgres: R[] = [];
  #isAsking = false;
  #redisRestUntilMs = 0;
  #postgresRestUntilMs = 0;

  constructor(
    options: Pick<SnapshotCacheOptions<T>, 'clock' | 'source' | 'store'>,
    counters: ReturnType<typeof newReaderCounters>,
    receiver: SnapshotReceiver<T, R>,
  ) {
    this.#options = options;
    this.#counters = counters;
    this.#receiver = receiver;
  }

  /** Whether Postgres did not answer last time. */
  get isPostgresResting(): boolean {
    return this.#postgresRestUntilMs > 0;
  }

  read(request: R): void {
    if (this.#forRedis.length === 0) setImmediate(() => void this.#askRedis());
    this.#forRedis.push(request);
  }

  async #askRedis(): Promise<void> {
    const requests = this.#forRedis;
    this.#forRedis = [];
    const { clock, source, store } = this.#options;
    for (let at = 0; at < requests.length; at += snapshotLimits.keysPerQueryMax) {
      const some = requests.slice(at, at + snapshotLimits.keysPerQueryMax);
      if (isPaused(clock(), this.#redisRestUntilMs)) {
        this.#queueForPostgres(some);
        continue;
      }
      try {
        const keys = some.map(({ key }) => source.prefix + key);
        const texts = await within(store.mget(keys), snapshotLimits.staleWaitMs);
        this.#queueForPostgres(some.filter((request, n) => !this.#takeFromRedis(request, texts[n] ?? null)));
      } catch {
        this.#redisFailed();
        this.#queueForPostgres(some);
      }
    }
  }

  /** Whether the text answers the request. Redis entries are the time of the check, a space, and the snapshot. */
  #takeFromRedis(request: R, text: string | null): boolean {
    if (text === null || text === changeMarker) return false;
    const checkedMs = Number(text.slice(0, text.indexOf(' ')));
    const nowMs = this.#options.clock();
    // A time in the future is of a clock that has been set back since.
    if (!(checkedMs > this.trustedSinceMs || this.trustedSinceMs > nowMs) || checkedMs > nowMs + skewMsMax)
      return false;
    const json = text.slice(text.indexOf(' ') + 1);
    const value = this.#options.source.decode(json);
    if (value === undefined) return false;
    this.#counters.redis_hits++;
    this.#receiver.found(request, value, json);
    return true;
  }

  #queueForPostgres(requests: readonly R[]): void {
    this.#forPostgres.push(...requests);
    if (!this.#isAsking && this.#forPostgres.length > 0) void this.#askPostgres();
  }

  /** One query at a time, at least queryIntervalMs after the previous one. */
  async #askPostgres(): Promise<void> {
    this.#isAsking = true;
    const { clock, source } = this.#options;
    while (this.#forPostgres.length > 0) {
      const requests = this.#forPostgres.splice(0, snapshotLimits.keysPerQueryMax);
      if (isPaused(clock(), this.#postgresRestUntilMs)) {
        await Promise.all(requests.map((request) => this.#receiver.failed(request)));
        continue;
      }
      try {
        this.#counters.queries++;
        const found = await within(source.read(requests.map(({ key }) => key)), snapshotLimits.lookupMs);
        this.#postgresRestUntilMs = 0;
        this.#takeFromPostgres(requests, found);
      } catch {
        this.#counters.postgres_failures++;
        this.#postgresRestUntilMs = clock() + snapshotLimits.retryMs;
        await Promise.all(requests.map((request) => this.#receiver.failed(request)));
      }
      await sleep(systemTime, snapshotLimits.queryIntervalMs);
    }
    this.#isAsking = false;
  }

  #takeFromPostgres(requests: readonly R[], found: ReadonlyMap<string, T>): void {
    const { clock, source, store } = this.#options;
    const entries: { key: string; value: string; ttlMs: number }[] = [];
    for (const request of requests) {
      const value = found.get(request.key) ?? null;
      const json = value === null ? '' : source.encode(value);
      this.#counters[value === null ? 'absent' : 'postgres_hits']++;
      this.#receiver.found(request, value, json);
      // Negative answers are cached only in the process, because a scan of unknown keys would fill Redis with them.
      if (value === null) continue;
      const { redisTtlMs: ttlMs } = snapshotLimits;
      entries.push({ key: source.prefix + request.key, value: `${request.startedMs} ${json}`, ttlMs });
    }
    if (entries.length === 0 || isPaused(clock(), this.#redisRestUntilMs)) return;
    within(store.addMissing(entries), snapshotLimits.staleWaitMs).catch(() => this.#redisFailed());
  }

  #redisFailed(): void {
    this.#counters.redis_failures++;
    this.#redisRestUntilMs = this.#options.clock() + snapshotLimits.retryMs;
  }
}
