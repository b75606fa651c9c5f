/** Times that callers send as text. */

/** The requirement, for error messages. */
export const storableTimes = 'must be a time in ISO 8601 with its time zone, from 1970 to 9999';

/** Other formats, such as 1/2/2026, would be parsed as a local time of this machine. */
const shape = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/i;

/** Whether every store can hold the time unchanged. */
export function isStorableTime(text: string): boolean {
  const ms = shape.test(text) ? Date.parse(text) : Number.NaN;
  return ms >= Date.UTC(1970, 0, 1) && ms < Date.UTC(10_000, 0, 1);
}

/** Whether the text is an existing date, from 1970 on; Postgres has no year 0. */
export function isPlainDate(text: string): boolean {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  return ms >= 0 && new Date(ms).toISOString().startsWith(text);
}
