/**
 * Keeps children running.
 *
 * Each child: starting → running → (ended → waiting → starting …) → stopped, or given up.
 * - A child that ends by itself is started again, after a pause that doubles with each death in a row.
 * - A start that fails counts as a death; that onChange fails, on a full disk say, does not.
 * - A child that ran for `settledMs` has no deaths in a row any more.
 * - After `deathsMax` deaths in a row the supervisor gives up: it says so once and leaves the rest to its owner.
 * - stop() ends all in the reverse of the order in which they were added, and nothing is started any more.
 */
import type { Exit } from './child.ts';

export interface Running {
  readonly pid: number;
  readonly exited: Promise<Exit>;
  hasExited(): boolean;
  stop(): Promise<void>;
}

export interface SupervisorOptions {
  /** One line about a death or a new start. */
  readonly say: (line: string) => void;
  /** Called once, with the child that would not stay up. */
  readonly onGiveUp: (name: string) => void;
  /** Called whenever a child has a new pid. That it fails is said once, until it works again. */
  readonly onChange?: () => void;
  readonly pauseMs?: number;
  readonly pauseMaxMs?: number;
  readonly deathsMax?: number;
  readonly settledMs?: number;
}

type Start<T extends Running> = (isFirst: boolean) => Promise<T>;

interface Entry {
  readonly name: string;
  readonly start: Start<Running>;
  current: Running | undefined;
  /** Held from the first start to the last end; stop() waits for it. */
  life: Promise<void>;
}

export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #entries: Entry[] = [];
  readonly #stopping = new AbortController();
  #isFailureSaid = false;

  constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  /** Starts a child and keeps it up from then on. A first start that fails is thrown, not tried again. */
  async add<T extends Running>(name: string, start: Start<T>): Promise<T> {
    const first = start(true);
    const entry: Entry = { name, start, current: undefined, life: Promise.resolve() };
    this.#entries.push(entry);
    // Set before the first await, so that a stop during the start waits for it and then ends the child.
    entry.life = first.then(
      (running) => {
        entry.current = running;
        return this.#watch(entry, running);
      },
      () => undefined,
    );
    const running = await first;
    this.#noteChange();
    return running;
  }

  /** Name and pid of every child that runs now. */
  list(): { name: string; pid: number }[] {
    return this.#entries.flatMap(({ name, current }) =>
      current === undefined || current.hasExited() ? [] : [{ name, pid: current.pid }],
    );
  }

  /** Ends all children, the last one added first. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const entry of [...this.#entries].reverse()) {
      await entry.current?.stop();
      await entry.life;
    }
  }

  async #watch(entry: Entry, first: Running): Promise<void> {
    const { deathsMax = 8, settledMs = 20_000, say } = this.#options;
    let running: Running | undefined = first;
    let deaths = 0;
    while (running !== undefined) {
      if (this.#stopping.signal.aborted) return running.stop();
      const started = performance.now();
      const exit: Exit = await running.exited;
      // Lets go of what it holds, its folder's lock for one.
      await running.stop();
      if (this.#stopping.signal.aborted) return;
      if (performance.now() - started > settledMs) deaths = 0;
      deaths += 1;
      say(
        `${entry.name} (pid ${running.pid}) ended by itself (${exit.signal ?? `code ${exit.code}`}); it is started again`,
      );
      running = undefined;
      while (running === undefined && deaths < deathsMax) {
        await this.#pause(deaths);
        if (this.#stopping.signal.aborted) return;
        running = await this.#startAgain(entry);
        if (running === undefined) deaths += 1;
      }
    }
    say(`${entry.name} ended ${deaths} times in a row; giving up`);
    this.#options.onGiveUp(entry.name);
  }

  async #startAgain(entry: Entry): Promise<Running | undefined> {
    try {
      entry.current = await entry.start(false);
    } catch (error) {
      this.#options.say(`${entry.name} could not be started again: ${error instanceof Error ? error.message : error}`);
      return undefined;
    }
    this.#noteChange();
    this.#options.say(`${entry.name} runs again (pid ${entry.current.pid})`);
    return entry.current;
  }

  /** A child that runs is watched, whether or not it could be written down that it does. */
  #noteChange(): void {
    try {
      this.#options.onChange?.();
      this.#isFailureSaid = false;
    } catch (error) {
      if (this.#isFailureSaid) return;
      this.#isFailureSaid = true;
      this.#options.say(`which children run could not be noted: ${error instanceof Error ? error.message : error}`);
    }
  }

  #pause(deaths: number): Promise<void> {
    const { pauseMs = 100, pauseMaxMs = 5_000 } = this.#options;
    const { signal } = this.#stopping;
    return new Promise((resolve) => {
      const finish = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', finish);
        resolve();
      };
      const timer = setTimeout(finish, Math.min(pauseMs * 2 ** (deaths - 1), pauseMaxMs));
      signal.addEventListener('abort', finish);
    });
  }
}
