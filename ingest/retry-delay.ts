const retryMinMs = 50;
const retryMaxMs = 5_000;

/** How long to wait before the next try, in milliseconds. */
export function delayOf(tries: number): number {
  return Math.min(retryMaxMs, retryMinMs * 2 ** Math.min(tries, 10));
}
