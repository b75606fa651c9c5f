/**
 * Counts visits of codes that a host does not have, in memory, and adds them to Postgres every few seconds. All lists
 * are limited: visits of codes beyond a limit are counted as one sum, so a scanner of random codes costs no more than
 * one broken link.
 */
import type { Clock } from '#common/clock.ts';
import type { LinkedApp } from '#common/links/link-snapshot.ts';

export const orphanLimits = {
  /** Maximum codes in memory, of all apps … */
  codesMax: 2_000,
  /** … and in Postgres, per app and day. */
  codesPerDayMax: 200,
  flushIntervalMs: 10_000,
  /** How many of the oldest codes are compared; the least visited of them makes room for a new one. */
  candidatesMax: 8,
} as const;

interface OrphanCount {
  readonly app_id: string;
  readonly day: string;
  /** Empty for the sum of all codes beyond the limit. */
  readonly code: string;
  visits: number;
  lastMs: number;
}

interface OrphanDatabase {
  query(sql: string, values: readonly unknown[]): Promise<readonly object[]>;
}

const add = 'SELECT signpost_count_orphans($1, $2, $3, $4, $5, $6)';

export class OrphanVisits {
  readonly counters = { counted: 0, flushes: 0, failed_flushes: 0 };
  readonly #db: OrphanDatabase;
  readonly #clock: Clock;
  /** In order of their first visit. */
  #codes = new Map<string, OrphanCount>();
  /** The visits of codes beyond the limit, by app and day. */
  #others = new Map<string, OrphanCount>();
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> | undefined;

  constructor(db: OrphanDatabase, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  get size(): number {
    return this.#codes.size + this.#others.size;
  }

  start(): void {
    this.#timer = setInterval(() => void this.flush(), orphanLimits.flushIntervalMs).unref();
  }

  /** Counts since the last flush are lost if Postgres is unavailable. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  /** @param code in the form in which the app stores codes. */
  count({ id }: LinkedApp, code: string): void {
    const nowMs = this.#clock();
    this.counters.counted++;
    this.#add({ app_id: id, day: new Date(nowMs).toISOString().slice(0, 10), code, visits: 1, lastMs: nowMs });
  }

  /** Adds the counts to Postgres. If that fails, they are kept for the next time. Never rejects. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  async #flush(): Promise<void> {
    const counts = [...this.#codes.values(), ...this.#others.values()];
    if (counts.length === 0) return;
    this.#codes = new Map();
    this.#others = new Map();
    try {
      await this.#db.query(add, [
        counts.map(({ app_id }) => app_id),
        counts.map(({ day }) => day),
        counts.map(({ code }) => code),
        counts.map(({ visits }) => visits),
        counts.map(({ lastMs }) => new Date(lastMs)),
        orphanLimits.codesPerDayMax,
      ]);
      this.counters.flushes++;
    } catch {
      // The outcome may be unknown; a slightly high count does no harm.
      this.counters.failed_flushes++;
      for (const count of counts) this.#add(count);
    }
  }

  #add(count: OrphanCount): void {
    const counts = count.code === '' ? this.#others : this.#codes;
    const key = `${count.app_id} ${count.day} ${count.code}`;
    const known = counts.get(key);
    if (known !== undefined) {
      known.visits += count.visits;
      known.lastMs = Math.max(known.lastMs, count.lastMs);
      return;
    }
    if (counts.size >= orphanLimits.codesMax) {
      // Beyond this number of hosts per interval, sums are dropped.
      if (count.code === '') return;
      this.#makeRoom();
    }
    counts.set(key, count);
  }

  /** Moves the least visited of the oldest codes into its app's sum. */
  #makeRoom(): void {
    let least: [string, OrphanCount] | undefined;
    let seen = 0;
    for (const entry of this.#codes) {
      if (least === undefined || entry[1].visits < least[1].visits) least = entry;
      if (++seen >= orphanLimits.candidatesMax) break;
    }
    if (least === undefined) return;
    const [key, count] = least;
    this.#codes.delete(key);
    this.#add({ ...count, code: '' });
  }
}
