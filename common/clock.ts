/** Milliseconds since the Unix epoch. Injected, so that rules about time can be tested without waiting. */
export type Clock = () => number;

export const systemClock: Clock = Date.now;

/** ISO 8601 in UTC with milliseconds and Z, the only format in which Signpost returns times. */
export function isoTime(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
