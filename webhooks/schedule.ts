/** When the next attempt to deliver a message starts. */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '#common/durations.ts';

/**
 * The delays after each failed attempt, as suggested by the Standard Webhooks specification. The last attempt follows
 * the last delay.
 */
export const retryDelaysMs: readonly number[] = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];

/** An endpoint without any success for this long is disabled. */
export const failingMsMax = 5 * DAY_MS;

/** Maximum time by which a receiver can postpone a message. */
const retryAfterMsMax = DAY_MS;

export const delayMsMax = Math.max(retryAfterMsMax, ...retryDelaysMs);

/**
 * @param tries attempts that have failed, including the last.
 * @param retryAfter the header of the last response; it can only lengthen the delay.
 * @returns null after the last attempt.
 */
export function retryDelayMs(tries: number, retryAfter: string, nowMs: number): number | null {
  const delay = retryDelaysMs[tries - 1];
  if (delay === undefined) return null;
  return Math.max(delay, Math.min(retryAfterMs(retryAfter, nowMs), retryAfterMsMax));
}

/** RFC 9110, 10.2.3: seconds, or a date. 0 if it is neither. */
function retryAfterMs(text: string, nowMs: number): number {
  if (/^\d{1,10}$/.test(text)) return Number(text) * SECOND_MS;
  const time = Date.parse(text);
  return Number.isNaN(time) ? 0 : Math.max(0, time - nowMs);
}
