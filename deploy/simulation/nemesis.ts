/** Injects faults into a simulation: a seed draws a few kinds of faults, how often they hit, and how long they last. */
import type { SeededRandom } from '#testing/seeded-random.ts';
import { type Fault, faults } from './faults.ts';
import type { World } from './world.ts';

const kindsMax = 6;
/**
 * Words in the names of related faults. Some seeds inject the faults of one theme only, since two faults in a row at
 * the same place find errors that single ones do not.
 */
const themes: readonly (readonly string[])[] = [
  ['Postgres'],
  ['ClickHouse'],
  ['ClickHouse'],
  ['backed up', 'restored', 'replay', 'killed'],
  ['log'],
  ['disk'],
  ['network'],
  ['time', 'clock'],
  ['partitions', 'replay'],
  ['partitions', 'log', 'Postgres'],
  ['partitions were added'],
  ['for days', 'replay'],
];
const themesOfMatching = [['Redis'], ['Redis', 'Postgres'], ['Redis', 'log']];
const themedShare = 0.4;
const withTheme = ['process killed', 'process killed between a request and its answer', 'power lost'];

function kindsOf(
  random: SeededRandom,
  all: readonly Fault[],
  themes: readonly (readonly string[])[],
): readonly Fault[] {
  if (random.next() < themedShare) {
    const theme = random.pick(themes);
    return all.filter(({ name }) => theme.some((word) => name.includes(word)) || withTheme.includes(name));
  }
  const left = [...all];
  return Array.from({ length: random.between(1, kindsMax) }, () => {
    const [kind] = left.splice(Math.floor(random.next() * left.length), 1);
    return kind ?? random.pick(all);
  });
}

export class Nemesis {
  /** How often each fault hit. */
  readonly hits = new Map<string, number>();
  readonly #world: World;
  readonly #kinds: readonly Fault[];
  readonly #everyMs: number;
  readonly #lastsMs: number;
  readonly #ends = new Set<() => void>();
  #isOver = false;

  constructor(world: World) {
    this.#world = world;
    const { random } = world.scheduler;
    // Without Redis, its faults are never drawn; with it, at least one usually is.
    const all = faults.filter(({ name }) => world.redis !== undefined || !name.includes('Redis'));
    this.#kinds = kindsOf(random, all, world.redis === undefined ? themes : themesOfMatching);
    this.#everyMs = random.pick([200, 1_000, 5_000]);
    this.#lastsMs = random.pick([50, 1_000, 10_000]);
    this.#next();
  }

  get kinds(): readonly string[] {
    return this.#kinds.map((kind) => kind.name);
  }

  /** Ends all lasting faults, and injects no more. */
  stop(): void {
    this.#isOver = true;
    for (const end of [...this.#ends]) end();
    this.#ends.clear();
  }

  #next(): void {
    const { scheduler } = this.#world;
    scheduler.after(-Math.log(1 - scheduler.random.next()) * this.#everyMs, () => {
      if (this.#isOver) return;
      this.#hit(scheduler.random.pick(this.#kinds));
      this.#next();
    });
  }

  #hit(fault: Fault): void {
    const { scheduler } = this.#world;
    scheduler.note(() => `FAULT ${fault.name}`);
    this.hits.set(fault.name, (this.hits.get(fault.name) ?? 0) + 1);
    const end = fault.hit(this.#world);
    if (end === undefined) return;
    this.#ends.add(end);
    scheduler.after(scheduler.random.next() * this.#lastsMs, () => {
      if (!this.#ends.delete(end)) return;
      scheduler.note(() => `over: ${fault.name}`);
      end();
    });
  }
}
