/** Clicks that a device names before the pipeline has brought them here: they are waited for, a moment and a bounded number at once. */
import { timeOfId } from '#common/ids.ts';
import { sleep, systemTime } from '#common/time.ts';

/** A click that is not known after this time never will be. */
export const CLICK_KNOWN_WITHIN_MS = 60_000;
/** When to ask again for a click that was waited for in vain. */
export const ASK_AGAIN_MS = 2_000;
const CLOCK_SKEW_MS = 5_000;
const WAIT_MS = 1_000;
const POLL_MS = 100;
const WAITING_MAX = 500;

/** By the time in its id. */
export function isYoungClick(clickId: string, nowMs: number): boolean {
  const ageMs = nowMs - timeOfId(clickId);
  return ageMs >= -CLOCK_SKEW_MS && ageMs < CLICK_KNOWN_WITHIN_MS;
}

/** Whether a click that was named and not found may yet come. */
export function hasYoung(ids: readonly string[], found: readonly unknown[], nowMs: number): boolean {
  return ids.some((id, at) => !found[at] && isYoungClick(id, nowMs));
}

export class YoungClicks {
  #waiting = 0;

  /** Asks until the answer is not null, for at most a second; null at once where too many wait already. */
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
