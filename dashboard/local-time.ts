/** A time in the format of the browser's datetime-local input. */
export const localTime = (ms: number) =>
  new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
