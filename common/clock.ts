/** Milliseconds since the Unix epoch. Passed in, so that rules about time can be tested without waiting. */
export type Clock = () => number;

export const systemClock: Clock = Date.now;

/** ISO 8601 in UTC with milliseconds and Z, the one form in which a time leaves Signpost. */
export function isoTime(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
