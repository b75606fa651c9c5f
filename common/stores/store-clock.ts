/**
 * The clock of a store, for what one process writes and another one judges: ends of links and sessions, ages of shared
 * cache entries. All processes share it, so a wrong clock of their machine matters to none of them. It is read once a
 * minute; between two readings, time passes by a clock that can't jump. Until the store has answered once, this
 * machine's clock is used.
 */
import type { Clock } from '#common/clock.ts';
import { MINUTE_MS, SECOND_MS } from '#common/durations.ts';
import type { Part } from '#common/process/lifecycle.ts';
import { systemTime, type Time, type Timer } from '#common/time.ts';
import type { Queries } from './postgres.ts';
import type { Redis } from './redis.ts';

interface StoreClockParts {
  /** Epoch milliseconds by the store. Rejects while it does not answer. */
  readonly read: () => Promise<number>;
  /** Called with each failure. */
  readonly onError?: (error: unknown) => void;
  /** Replaced in tests. */
  readonly time?: Pick<Time, 'now' | 'elapsed' | 'after' | 'clear'>;
}

export class StoreClock implements Part {
  readonly name = 'clock of the store';
  readonly #parts: StoreClockParts;
  readonly #time: NonNullable<StoreClockParts['time']>;
  /** The store's time when `elapsed` was 0. */
  #originMs: number | undefined;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(parts: StoreClockParts) {
    this.#parts = parts;
    this.#time = parts.time ?? systemTime;
  }

  static ofPostgres(db: Queries): StoreClock {
    const sql = 'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS ms';
    const read = async () => (await db.query<{ ms: number }>(sql, [], 'store_clock'))[0]?.ms ?? Number.NaN;
    return new StoreClock({ read });
  }

  static ofRedis({ commands }: Redis, more: Omit<StoreClockParts, 'read'> = {}): StoreClock {
    const read = async () => {
      const [seconds, micros] = await commands.time();
      return Number(seconds) * 1000 + Number(micros) / 1000;
    };
    return new StoreClock({ ...more, read });
  }

  /** Epoch milliseconds. */
  readonly now: Clock = () =>
    this.#originMs === undefined ? this.#time.now() : Math.floor(this.#originMs + this.#time.elapsed());

  /** How far this machine's clock is ahead of the store's, in milliseconds; 0 before the first reading. */
  get aheadMs(): number {
    return this.#originMs === undefined ? 0 : this.#time.now() - this.now();
  }

  /** Reads the store's clock once, then once a minute. */
  async start(): Promise<void> {
    const isRead = await this.#look();
    if (!this.#isStopped) this.#timer = this.#time.after(isRead ? MINUTE_MS : SECOND_MS, () => void this.start());
  }

  stop(): void {
    this.#isStopped = true;
    this.#time.clear(this.#timer);
  }

  /** @returns whether the store answered. */
  async #look(): Promise<boolean> {
    const askedMs = this.#time.elapsed();
    const storeMs = await this.#parts.read().catch((error: unknown) => {
      this.#parts.onError?.(error);
      return Number.NaN;
    });
    const answeredMs = this.#time.elapsed();
    if (!Number.isFinite(storeMs)) return false;
    const originMs = storeMs - (askedMs + answeredMs) / 2;
    // The store read its clock at some moment between the two, so a smaller difference says nothing.
    const isExplained = Math.abs(originMs - (this.#originMs ?? Number.NaN)) <= (answeredMs - askedMs) / 2;
    if (!isExplained) this.#originMs = originMs;
    return true;
  }
}
