/** Limits how many tasks run concurrently and how many wait; beyond that it rejects. */
export class StatementLane {
  readonly #runningMax: number;
  readonly #waitingMax: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(runningMax: number, waitingMax: number) {
    this.#runningMax = runningMax;
    this.#waitingMax = waitingMax;
  }

  get isFull(): boolean {
    return this.#running >= this.#runningMax && this.#waiting.length >= this.#waitingMax;
  }

  get busy(): number {
    return this.#running + this.#waiting.length;
  }

  /** Only for a lane that is not full. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#runningMax) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await work();
    } finally {
      // The slot is passed on directly, so that no new task overtakes the waiting one.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }
}
