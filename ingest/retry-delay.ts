/** The delay between attempts while a server is unavailable: doubles from 50 ms to 5 s. */
const retryMinMs = 50;
const retryMaxMs = 5_000;

/** How long to wait before the next attempt, in milliseconds. */
export function delayOf(tries: number): number {
  return Math.min(retryMaxMs, retryMinMs * 2 ** Math.min(tries, 10));
}
