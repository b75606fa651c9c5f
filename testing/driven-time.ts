import type { Time, Timer } from '#common/time.ts';

/** A clock whose timers run when a test lets time pass. */
export class DrivenTime implements Pick<Time, 'after' | 'clear' | 'now'> {
  #nowMs = 0;
  readonly #timers = new Map<Timer, { readonly atMs: number; readonly callback: () => void }>();

  readonly now = (): number => this.#nowMs;

  /** When the next timer runs; undefined if there is none. */
  get nextMs(): number | undefined {
    const due = [...this.#timers.values()].map(({ atMs }) => atMs);
    return due.length === 0 ? undefined : Math.min(...due);
  }

  after(ms: number, callback: () => void): Timer {
    const timer = {};
    this.#timers.set(timer, { atMs: this.#nowMs + ms, callback });
    return timer;
  }

  clear(timer: Timer | undefined): void {
    if (timer !== undefined) this.#timers.delete(timer);
  }

  get waiting(): number {
    return this.#timers.size;
  }

  /** Runs the timers of the next `ms` in order. @param isOver whether what follows from a timer has happened. */
  async pass(ms: number, isOver = () => true): Promise<void> {
    const endMs = this.#nowMs + ms;
    for (;;) {
      const [next] = [...this.#timers].filter(([, { atMs }]) => atMs <= endMs).sort(([, a], [, b]) => a.atMs - b.atMs);
      if (next === undefined) break;
      const [timer, { atMs, callback }] = next;
      this.#timers.delete(timer);
      this.#nowMs = atMs;
      callback();
      do await settled();
      while (!isOver());
    }
    this.#nowMs = endMs;
  }
}

/** Everything that needs no timer and no I/O has happened. */
export function settled(): Promise<void> {
  return new Promise((done) => setImmediate(done));
}
