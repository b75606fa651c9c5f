/** Waits that end early when their owner is stopped. */
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import type { Time } from '#common/time.ts';

const retryMs = 500;

export class StoppableWait {
  readonly #time: Time;
  readonly #isStopping: () => boolean;
  #wake: (() => void) | undefined;

  constructor(time: Time, isStopping: () => boolean) {
    this.#time = time;
    this.#isStopping = isStopping;
  }

  /** Repeats a step until Postgres is reachable. @throws PostgresUnavailable once the owner is stopping. */
  async whenThere<T>(step: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof PostgresUnavailable)) throw error;
        await this.pause(retryMs);
        if (this.#isStopping()) throw error;
      }
    }
  }

  pause(ms: number): Promise<void> {
    return new Promise((done) => {
      const timer = this.#time.after(ms, () => this.#wake?.());
      this.#wake = () => {
        this.#time.clear(timer);
        this.#wake = undefined;
        done();
      };
    });
  }

  /** Ends the current pause, if any. */
  wake(): void {
    this.#wake?.();
  }
}
