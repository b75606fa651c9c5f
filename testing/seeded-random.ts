/** Repeatable random numbers. */
import { seededRandom } from '#common/seeded-random.ts';

export class SeededRandom {
  readonly seed: number;
  readonly #random: () => number;

  constructor(seed: number) {
    this.seed = seed;
    this.#random = seededRandom(seed);
  }

  /** From 0 to below 1. */
  next(): number {
    return this.#random();
  }

  /** A whole number, both ends included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  /** @throws if the list is empty. */
  pick<T>(from: readonly T[]): T {
    const found = from[Math.floor(this.next() * from.length)];
    if (found === undefined) throw new Error('cannot pick from an empty list');
    return found;
  }
}
