/** Milliseconds since the Unix epoch. Injected, so that rules about time can be tested without waiting. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();

/** Longer than a pause and the request that began before it. */
const pauseMsMax = 60_000;

/** Whether a pause of some seconds lasts. A clock that was set back ends it. */
export function isPaused(nowMs: number, untilMs: number): boolean {
  return nowMs < untilMs && nowMs >= untilMs - pauseMsMax;
}

/** ISO 8601 in UTC with milliseconds and Z, the only format in which Signpost returns times. */
export function isoTime(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
