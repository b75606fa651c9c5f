/**
 * Waits for clicks that a device names before the pipeline has delivered them: a limited number of requests, for at
 * most a second each.
 */
import { timeOfId } from '#common/ids.ts';
import { sleep, systemTime } from '#common/time.ts';

/** A click that is not known after this time never will be. */
export const CLICK_KNOWN_WITHIN_MS = 60_000;
/** When to send the request again if the click did not arrive during the wait. */
export const ASK_AGAIN_MS = 2_000;
const CLOCK_SKEW_MS = 5_000;
const WAIT_MS = 1_000;
const POLL_MS = 100;
const WAITING_MAX = 500;

/** Judged by the time in the click's id. */
export function isYoungClick(clickId: string, nowMs: number): boolean {
  const ageMs = nowMs - timeOfId(clickId);
  return ageMs >= -CLOCK_SKEW_MS && ageMs < CLICK_KNOWN_WITHIN_MS;
}

/** Whether a named click that was not found may still arrive. */
export function hasYoung(ids: readonly string[], found: readonly unknown[], nowMs: number): boolean {
  return ids.some((id, at) => !found[at] && isYoungClick(id, nowMs));
}

export class YoungClicks {
  #waiting = 0;

  /**
   * Retries until the answer is not null, for at most a second; returns null immediately if too many are waiting
   * already.
   */
  async wait<T>(ask: () => Promise<T | null>): Promise<T | null> {
    if (this.#waiting >= WAITING_MAX) return null;
    this.#waiting++;
    try {
      for (let waitedMs = 0; waitedMs < WAIT_MS; waitedMs += POLL_MS) {
        await sleep(systemTime, POLL_MS);
        const found = await ask();
        if (found !== null) return found;
      }
      return null;
    } finally {
      this.#waiting--;
    }
  }
}
