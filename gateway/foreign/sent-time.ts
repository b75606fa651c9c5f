/**
 * Corrects times from a device whose clock is wrong. Clients report, by the same clock, when they sent a request: the
 * difference to our time of receipt is the error of the clock. The services themselves calculate it in the same way.
 */
import { MINUTE_MS } from '#common/durations.ts';
import { EVENT_AHEAD_MAX_MS, readTime } from '#common/event-time.ts';

/** When a request was received and sent. */
export interface Receipt {
  readonly receivedMs: number;
  /** The time of sending according to the client; unchecked. */
  readonly sentAt: unknown;
}

/**
 * By which of our clocks a client's is judged. If they differ by more than an hour, the one that is nearer to the
 * client's, because one of the two is wrong, and a client is rarely wrong in the same way. Without a client's, that of
 * the store: ingest corrects only the times that an edge took from its own clock.
 */
export function ourTime({ receivedMs, sentAt }: Receipt, storeMs: number): number {
  if (Math.abs(receivedMs - storeMs) <= EVENT_AHEAD_MAX_MS) return receivedMs;
  const sentMs = readTime(sentAt) ?? storeMs;
  return Math.abs(receivedMs - sentMs) < Math.abs(storeMs - sentMs) ? receivedMs : storeMs;
}

/** Smaller differences, from network delay or a slightly wrong clock, are not corrected. */
const skewMinMs = 5 * MINUTE_MS;

/** The time by our clock; an invalid time is returned unchanged, so that it is rejected. */
export function timeByOurClock(timestamp: unknown, { receivedMs, sentAt }: Receipt): unknown {
  const [ms, sentMs] = [readTime(timestamp), readTime(sentAt)];
  if (ms === null || sentMs === null || Math.abs(receivedMs - sentMs) <= skewMinMs) return timestamp;
  return receivedMs - (sentMs - ms);
}
