/** Chance that can be repeated. */
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

  /** @throws when there is nothing to pick from. */
  pick<T>(from: readonly T[]): T {
    const found = from[Math.floor(this.next() * from.length)];
    if (found === undefined) throw new Error('nothing to pick from');
    return found;
  }
}
