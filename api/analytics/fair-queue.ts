/**
 * Who may ask the store of figures when. At most `runningMax` questions run, at most `perKeyMax` of one key (an
 * organization) among them, and `waitingMax` more of that key wait; keys that wait are served in turn, so one that asks a
 * lot delays itself and nobody else.
 */
export interface FairQueueLimits {
  readonly runningMax: number;
  readonly perKeyMax: number;
  readonly waitingMax: number;
  /** Keys that may wait at once. */
  readonly keysMax: number;
}

interface Lane {
  running: number;
  readonly waiting: (() => void)[];
}

export class FairQueue {
  readonly #limits: FairQueueLimits;
  /** In the order in which they are served next: a key that got a turn goes to the end. */
  readonly #lanes = new Map<string, Lane>();
  #running = 0;

  constructor(limits: FairQueueLimits) {
    this.#limits = limits;
  }

  get running(): number {
    return this.#running;
  }

  isFull(key: string): boolean {
    const lane = this.#lanes.get(key);
    return lane ? lane.waiting.length >= this.#limits.waitingMax : this.#lanes.size >= this.#limits.keysMax;
  }

  /** A stream that takes its place when it begins and gives it back when it ends, is left or fails. */
  async *stream<T>(key: string, open: () => AsyncGenerator<T>): AsyncGenerator<T> {
    let end: (() => void) | undefined;
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    let begin: (() => void) | undefined;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const place = this.run(key, async () => {
      begin?.();
      await ended;
    });
    try {
      if ((await Promise.race([begun, place])) === 'full') throw new Error('too much of this key waits already');
      yield* open();
    } finally {
      end?.();
    }
  }

  /** Runs the work in its turn. @returns 'full' when too much of this key waits already. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T | 'full'> {
    const { runningMax, perKeyMax, waitingMax, keysMax } = this.#limits;
    let lane = this.#lanes.get(key);
    if (!lane) {
      if (this.#lanes.size >= keysMax) return 'full';
      lane = { running: 0, waiting: [] };
      this.#lanes.set(key, lane);
    }
    if (this.#running < runningMax && lane.running < perKeyMax && lane.waiting.length === 0) {
      this.#start(lane);
    } else {
      if (lane.waiting.length >= waitingMax) return 'full';
      const waiting = lane.waiting;
      await new Promise<void>((resolve) => waiting.push(resolve));
    }
    try {
      return await work();
    } finally {
      lane.running--;
      this.#running--;
      if (lane.running === 0 && lane.waiting.length === 0) this.#lanes.delete(key);
      this.#next();
    }
  }

  #start(lane: Lane): void {
    lane.running++;
    this.#running++;
  }

  #next(): void {
    for (const [key, lane] of this.#lanes) {
      if (this.#running >= this.#limits.runningMax) return;
      if (lane.running >= this.#limits.perKeyMax) continue;
      const resume = lane.waiting.shift();
      if (!resume) continue;
      this.#start(lane);
      this.#lanes.delete(key);
      this.#lanes.set(key, lane);
      resume();
    }
  }
}
