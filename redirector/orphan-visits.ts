/**
 * Visits of codes that a host does not have, counted in memory and added to Postgres every few seconds. Bounded everywhere: what
 * is too much for a list of codes is counted as one number, so a scanner of random codes costs no more than one broken link.
 */
import type { Clock } from '#common/clock.ts';
import type { LinkedApp } from '#common/links/link-snapshot.ts';

export const orphanLimits = {
  /** Codes in memory, of all apps … */
  codesMax: 2_000,
  /** … and in Postgres, for an app and a day. */
  codesPerDayMax: 200,
  flushIntervalMs: 10_000,
  /** Codes of which the least visited makes room for a new one. */
  candidatesMax: 8,
} as const;

interface OrphanCount {
  readonly app_id: string;
  readonly day: string;
  /** Empty: all that had no room. */
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
  /** In the order of their first visit. */
  #codes = new Map<string, OrphanCount>();
  /** By app and day: the visits of codes that had no room. */
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

  /** What was counted since the last flush is lost if Postgres is unavailable now. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  /** @param code as the app stores it. */
  count({ id }: LinkedApp, code: string): void {
    const nowMs = this.#clock();
    this.counters.counted++;
    this.#add({ app_id: id, day: new Date(nowMs).toISOString().slice(0, 10), code, visits: 1, lastMs: nowMs });
  }

  /** Adds what was counted to Postgres. If that fails, it is kept for the next time. Never rejects. */
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
      // Its outcome may be unknown; a number that is a little high does no harm.
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
      // More hosts than that are not told apart within one interval: their sums are left out.
      if (count.code === '') return;
      this.#makeRoom();
    }
    counts.set(key, count);
  }

  /** The least visited of the oldest codes becomes a part of its app's sum. */
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
