/** The steps of one request, with their times: recorded while it runs, and turned into spans if it is sampled. */
import { AsyncLocalStorage } from 'node:async_hooks';

export interface Step {
  /** The text of a statement, or a name. */
  readonly statement: string;
  readonly system: 'clickhouse' | 'postgresql';
  readonly startMs: number;
  readonly endMs: number;
  /** The name of its error; empty if it succeeded. */
  readonly error: string;
}

/** Wraps a statement. A store without a tracer runs statements directly. */
export type Around = <T>(statement: string, work: () => Promise<T>) => Promise<T>;

/** Beyond this, steps of a request are only counted. */
const stepsMax = 64;

export class Trail {
  readonly startMs: number;
  readonly steps: Step[] = [];
  omittedSteps = 0;
  readonly #startedAt = performance.now();

  /**
   * @param startMs the wall clock now; all other times are relative to it, so that a jumping clock does not move spans.
   */
  constructor(startMs: number) {
    this.startMs = startMs;
  }

  /** Epoch milliseconds with a fraction for microseconds. */
  now(): number {
    return this.startMs + performance.now() - this.#startedAt;
  }

  note(step: Step): void {
    if (this.steps.length < stepsMax) this.steps.push(step);
    else this.omittedSteps++;
  }
}

/** The request for which the current code runs, across awaits. */
export class Trails {
  readonly #current = new AsyncLocalStorage<Trail>();

  get current(): Trail | undefined {
    return this.#current.getStore();
  }

  run<T>(trail: Trail, work: () => T): T {
    return this.#current.run(trail, work);
  }

  /** Records the statements of a store on the trail of the request that runs them. */
  around(system: Step['system']): Around {
    return async (statement, work) => {
      const trail = this.#current.getStore();
      if (trail === undefined) return await work();
      const startMs = trail.now();
      let error = '';
      try {
        return await work();
      } catch (failure) {
        error = failure instanceof Error ? failure.name : 'failure';
        throw failure;
      } finally {
        trail.note({ statement, system, startMs, endMs: trail.now(), error });
      }
    };
  }
}
