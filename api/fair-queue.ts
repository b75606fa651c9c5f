/**
 * Fair queue: analytics queries by organization, password checks by network. At most `runningMax` jobs run, at most
 * `perKeyMax` of one key among them, and `waitingMax` more of that key wait. Waiting keys are served in turn, so a key
 * with many jobs delays only itself. A request that has begun goes on before others begin: otherwise one of four queries
 * would wait for all others four times.
 */
export interface FairQueueLimits {
  readonly runningMax: number;
  readonly perKeyMax: number;
  readonly waitingMax: number;
  /** Maximum keys that wait at the same time. */
  readonly keysMax: number;
}

interface Lane {
  running: number;
  /** Waiting jobs of requests that have begun. */
  begun: number;
  readonly waiting: (() => void)[];
}

/** A slot in the queue, held until it is released. Releasing it again has no effect. */
export interface Place {
  leave(): void;
}

export class FairQueue {
  readonly #limits: FairQueueLimits;
  /** In the order in which they are served next: a key that got a turn moves to the end. */
  readonly #lanes = new Map<string, Lane>();
  /** The next jobs of requests that have begun, each with the lane in which it counts. */
  readonly #begun: { readonly lane: Lane; readonly begin: () => void }[] = [];
  #running = 0;

  constructor(limits: FairQueueLimits) {
    this.#limits = limits;
  }

  get running(): number {
    return this.#running;
  }

  /**
   * Runs the work in its turn, or as soon as a slot is free if its request has begun.
   * @returns 'full' if too many jobs of this key are waiting already.
   */
  async run<T>(key: string, work: () => Promise<T>, hasBegun = false): Promise<T | 'full'> {
    const place = hasBegun ? await this.#goOn(key) : await this.enter(key);
    if (place === null) return 'full';
    try {
      return await work();
    } finally {
      place.leave();
    }
  }

  /**
   * @param patienceMs the longest wait. @returns null if too many jobs of this key are waiting already, or no slot
   * became free in time.
   */
  async enter(key: string, patienceMs?: number): Promise<Place | null> {
    const lane = this.#laneOf(key);
    if (lane === null) return null;
    if (lane.waiting.length === 0 && this.#hasRoom(lane)) this.#start(lane);
    else if (lane.waiting.length >= this.#limits.waitingMax || !(await this.#turn(key, lane, patienceMs))) return null;
    return this.#placeIn(key, lane);
  }

  async #goOn(key: string): Promise<Place | null> {
    const lane = this.#laneOf(key);
    if (lane === null) return null;
    if (this.#hasRoom(lane)) this.#start(lane);
    else {
      lane.begun++;
      await new Promise<void>((begin) => this.#begun.push({ lane, begin }));
      lane.begun--;
    }
    return this.#placeIn(key, lane);
  }

  #hasRoom(lane: Lane): boolean {
    return this.#running < this.#limits.runningMax && lane.running < this.#limits.perKeyMax;
  }

  #laneOf(key: string): Lane | null {
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    if (this.#lanes.size >= this.#limits.keysMax) return null;
    const lane = { running: 0, begun: 0, waiting: [] };
    this.#lanes.set(key, lane);
    return lane;
  }

  /** Waits for its turn. @returns false if that took too long. */
  #turn(key: string, lane: Lane, patienceMs: number | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const begin = () => {
        clearTimeout(timer);
        resolve(true);
      };
      const giveUp = () => {
        lane.waiting.splice(lane.waiting.indexOf(begin), 1);
        this.#forget(key, lane);
        resolve(false);
      };
      const timer = patienceMs === undefined ? undefined : setTimeout(giveUp, patienceMs);
      lane.waiting.push(begin);
    });
  }

  #placeIn(key: string, lane: Lane): Place {
    let isHeld = true;
    return {
      leave: () => {
        if (!isHeld) return;
        isHeld = false;
        lane.running--;
        this.#running--;
        this.#forget(key, lane);
        this.#next();
      },
    };
  }

  #forget(key: string, lane: Lane): void {
    if (lane.running + lane.begun + lane.waiting.length === 0) this.#lanes.delete(key);
  }

  #start(lane: Lane): void {
    lane.running++;
    this.#running++;
  }

  #next(): void {
    for (const one of [...this.#begun]) {
      if (!this.#hasRoom(one.lane)) continue;
      this.#begun.splice(this.#begun.indexOf(one), 1);
      this.#start(one.lane);
      one.begin();
    }
    for (const [key, lane] of this.#lanes) {
      if (this.#running >= this.#limits.runningMax) return;
      if (!this.#hasRoom(lane)) continue;
      const resume = lane.waiting.shift();
      if (!resume) continue;
      this.#start(lane);
      this.#lanes.delete(key);
      this.#lanes.set(key, lane);
      resume();
    }
  }
}
