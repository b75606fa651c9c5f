/**
 * The clock of the record path: injected, so that months can pass within seconds in a test, and so that a simulation
 * controls what happens next. The code of the record path (journal, publisher, ingest) uses no other clock, timer or
 * event-loop turn.
 */
import { uptime } from 'node:os';

/** Handle of a timer; only valid for `clear`. */
export type Timer = object;

export interface Time {
  /** Epoch milliseconds of the wall clock. It can jump in both directions. */
  now(): number;
  /** Milliseconds of a clock that never goes back and that includes time during which the machine was suspended. */
  elapsed(): number;
  after(ms: number, callback: () => void): Timer;
  every(ms: number, callback: () => void): Timer;
  clear(timer: Timer | undefined): void;
  /** At the end of this turn of the event loop. */
  atTurnEnd(callback: () => void): void;
}

/** How long a suspension may go unnoticed. */
const suspensionSeenMs = 50;
let suspendedMs = Number.NEGATIVE_INFINITY;
let lookedAt = Number.NEGATIVE_INFINITY;

/**
 * os.uptime reads CLOCK_BOOTTIME, which includes suspension, but in steps of 10 ms and at 40 µs per call. So this reads
 * the monotonic clock, and periodically measures how far it has fallen behind the other, which can only grow.
 */
function elapsed(): number {
  const now = performance.now();
  if (Math.abs(now - lookedAt) >= suspensionSeenMs) {
    lookedAt = now;
    suspendedMs = Math.max(suspendedMs, uptime() * 1000 - now);
  }
  return now + suspendedMs;
}

export const systemTime: Time = {
  now: Date.now,
  elapsed,
  after: (ms, callback) => setTimeout(callback, ms),
  every: (ms, callback) => setInterval(callback, ms),
  clear: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
  atTurnEnd: (callback) => void setImmediate(callback),
};

export function sleep(time: Pick<Time, 'after'>, ms: number): Promise<void> {
  return new Promise((done) => time.after(ms, done));
}
