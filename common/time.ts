/**
 * Time as the record path sees it: passed in, so that months can pass in a test within seconds, and so that a simulation decides
 * what happens next. The code of the record path (journal, publisher, ingest) uses no clock, timer or turn of its own.
 */
import { uptime } from 'node:os';

/** Handle of a timer; only good for `clear`. */
export type Timer = object;

export interface Time {
  /** Epoch milliseconds of the wall clock. It can jump in both directions. */
  now(): number;
  /** Milliseconds of a clock that never goes back and that counts the time in which the machine was suspended. */
  elapsed(): number;
  after(ms: number, callback: () => void): Timer;
  every(ms: number, callback: () => void): Timer;
  clear(timer: Timer | undefined): void;
  /** At the end of this turn of the event loop. */
  atTurnEnd(callback: () => void): void;
}

/** A share of a second is enough: what is measured by `elapsed` are leases and patience. Source of os.uptime: CLOCK_BOOTTIME. */
export const systemTime: Time = {
  now: Date.now,
  elapsed: () => uptime() * 1000,
  after: (ms, callback) => setTimeout(callback, ms),
  every: (ms, callback) => setInterval(callback, ms),
  clear: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
  atTurnEnd: (callback) => void setImmediate(callback),
};

export function sleep(time: Time, ms: number): Promise<void> {
  return new Promise((done) => time.after(ms, done));
}
