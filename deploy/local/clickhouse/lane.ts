/** Limits how many tasks run concurrently and how many wait; beyond that it rejects. */
export class StatementLane {
  readonly #runningMax: number;
  readonly #waitingMax: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  #isClosing = false;

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

  /** Used only if the lane is not full. */
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

  /**
   * Runs the task while no other task of this lane is running. @throws if another exclusive task is waiting or running.
   */
  async runAlone<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isClosing) throw new Error('another task already runs alone');
    this.#isClosing = true;
    const held: (() => void)[] = [];
    const hold = () =>
      new Promise<void>((isHeld) => {
        void this.run(() => {
          isHeld();
          return new Promise<void>((release) => held.push(release));
        });
      });
    try {
      await Promise.all(Array.from({ length: this.#runningMax }, hold));
      return await work();
    } finally {
      for (const release of held) release();
      this.#isClosing = false;
    }
  }
}
