/** Times that callers give as text. */

/** What is asked of them, in error messages. */
export const storableTimes = 'must be a time in ISO 8601 with its time zone, from 1970 to 9999';

/** Whether every store can hold the time unchanged. Its parts are joined by a T: a space is another format. */
export function isStorableTime(text: string): boolean {
  const ms = /\s/.test(text) ? Number.NaN : Date.parse(text);
  return ms >= Date.UTC(1970, 0, 1) && ms < Date.UTC(10_000, 0, 1);
}
