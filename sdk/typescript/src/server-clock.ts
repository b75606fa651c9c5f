/** The difference between the device's clock and the server's, from the header X-RateLimit-Reset: at most a minute after now. */
import { CLOCK_TOLERANCE_MS } from './limits.ts';

export class ServerClock {
  readonly #now: () => number;
  /** What to add to the device's clock; undefined before the first answer. */
  offsetMs: number | undefined;

  constructor(now: () => number) {
    this.#now = now;
  }

  now(): number {
    return this.#now() + (this.offsetMs ?? 0);
  }

  /** @param resetMs 0 if the answer had none. @returns whether the difference has changed, so that a refused time may be accepted now. */
  learn(resetMs: number): boolean {
    if (!resetMs) return false;
    const offset = resetMs - 30_000 - this.#now();
    const before = this.offsetMs ?? 0;
    this.offsetMs = Math.abs(offset) > CLOCK_TOLERANCE_MS ? offset : 0;
    return Math.abs(this.offsetMs - before) > CLOCK_TOLERANCE_MS;
  }
}
