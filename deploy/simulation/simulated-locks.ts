/** Locks on folders of a simulated machine: each dies with its program, and a frozen program still holds its own. */
import type { SlotLocks } from '#common/journal/slot-lock.ts';
import type { Program } from './program.ts';

const askMsMax = 1;

export class SimulatedLocks {
  readonly #holders = new Map<string, Program | undefined>();
  readonly #faults: { readonly unknown: number };

  /** @param faults `unknown`: the share of checks that fail, as without a free file descriptor. */
  constructor(faults: { readonly unknown: number }) {
    this.#faults = faults;
  }

  /** The locks as one program sees them. */
  of(program: Program): SlotLocks {
    const { scheduler } = program;
    const later = <R>(call: () => R) =>
      new Promise<R>((done) =>
        scheduler.after(scheduler.random.next() * askMsMax, () => program.enter(() => done(call()))),
      );
    return {
      take: (folder) =>
        later(() => {
          if (this.#isHeld(folder)) return undefined;
          this.#holders.set(folder, program);
          return {
            renew: () => Promise.resolve(true),
            // As with the real lock, a release leaves a lock file that names no holder.
            release: () => later(() => void this.#holders.set(folder, undefined)),
          };
        }),
      stateOf: (folder) =>
        later(() => {
          if (this.#faults.unknown > 0 && scheduler.random.next() < this.#faults.unknown) return 'unknown';
          if (!this.#holders.has(folder)) return 'missing';
          return this.#isHeld(folder) ? 'held' : 'free';
        }),
    };
  }

  #isHeld(folder: string): boolean {
    const holder = this.#holders.get(folder);
    return holder !== undefined && !holder.isDead;
  }
}
