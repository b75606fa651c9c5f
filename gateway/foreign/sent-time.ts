/**
 * Times of a device whose clock is wrong. Clients say when they sent a request, by the same clock: what that differs from
 * our time of receipt is the error of the clock, as their own services calculate it.
 */
import { MINUTE_MS } from '#common/durations.ts';
import { readTime } from '#common/event-time.ts';

/** When a request came. */
export interface Receipt {
  readonly receivedMs: number;
  /** When its client sent it, as the client says; unchecked. */
  readonly sentAt: unknown;
}

/** Networks, and clocks that are nearly right, change no time. */
const skewMinMs = 5 * MINUTE_MS;

/** The time by our clock; what is not a time stays as it is, to be rejected. */
export function timeByOurClock(timestamp: unknown, { receivedMs, sentAt }: Receipt): unknown {
  const [ms, sentMs] = [readTime(timestamp), readTime(sentAt)];
  if (ms === null || sentMs === null || Math.abs(receivedMs - sentMs) <= skewMinMs) return timestamp;
  return receivedMs - (sentMs - ms);
}
