/**
 * Decides what happens next in a simulation, from a seed alone. There is one queue of steps, ordered by virtual time;
 * after each step all promises that it settled run to completion before the next one begins. Nothing waits for a real
 * clock, timer or device, so the same seed gives the same schedule on every machine.
 */
import { SeededRandom } from '#testing/seeded-random.ts';

export interface Step {
  readonly at: number;
  readonly order: number;
  /** Undefined once it has run or was cancelled. */
  callback: (() => void) | undefined;
}

const traceLinesMax = 20_000;

export class Scheduler {
  readonly random: SeededRandom;
  /** What happened, for debugging a failing seed; recorded only on request. */
  readonly trace: string[] = [];
  steps = 0;
  readonly #isTraced: boolean;
  readonly #heap: Step[] = [];
  #now = 0;
  #order = 0;
  #fingerprint = 0x811c9dc5;

  constructor(seed: number, isTraced = false) {
    this.random = new SeededRandom(seed);
    this.#isTraced = isTraced;
  }

  /** Virtual milliseconds since the seed began: the true time, which no machine's clock needs to show. */
  get now(): number {
    return this.#now;
  }

  /** Two runs with the same schedule have the same value. */
  get fingerprint(): number {
    return this.#fingerprint >>> 0;
  }

  /** Adds a line to the schedule. It draws no random number, so a traced run equals an untraced one. */
  note(line: () => string): void {
    if (this.#isTraced && this.trace.length < traceLinesMax)
      this.trace.push(`${(this.#now / 1000).toFixed(4)} ${line()}`);
  }

  after(ms: number, callback: () => void): Step {
    const step = { at: this.#now + ms, order: this.#order++, callback };
    this.#push(step);
    return step;
  }

  cancel(step: Step): void {
    step.callback = undefined;
  }

  /**
   * Advances time up to a moment, or until the condition holds, whichever comes first. @returns whether the condition
   * held.
   */
  async run(untilMs: number, isDone: () => boolean = () => false): Promise<boolean> {
    for (;;) {
      if (isDone()) return true;
      const [next] = this.#heap;
      if (next === undefined || next.at > untilMs) break;
      this.#pop();
      const { callback } = next;
      if (callback === undefined) continue;
      next.callback = undefined;
      if (next.at > this.#now) this.#now = next.at;
      this.steps++;
      this.#fingerprint = Math.imul(this.#fingerprint ^ (next.at * 1000) ^ next.order, 0x01000193);
      callback();
      // Node runs nextTick callbacks once no promise callback is left, however many follow from one another. A whole
      // turn of the event loop would cost 4 µs more.
      await new Promise<void>((resume) => process.nextTick(resume));
    }
    if (this.#now < untilMs) this.#now = untilMs;
    return isDone();
  }

  /** Jumps forward in time: everything due in between is late. */
  leap(ms: number): void {
    this.#now += ms;
  }

  #push(step: Step): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(step);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || !isBefore(step, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = step;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      let below = heap[child];
      const right = heap[child + 1];
      if (right !== undefined && below !== undefined && isBefore(right, below)) {
        child++;
        below = right;
      }
      if (below === undefined || !isBefore(below, last)) break;
      heap[at] = below;
      at = child;
    }
    heap[at] = last;
  }
}

function isBefore(one: Step, other: Step): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}
