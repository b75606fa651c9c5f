/**
 * Keeps children running.
 *
 * Each child: starting → running → (ended → waiting → starting …) → stopped.
 * - A child that exits unexpectedly is restarted, after a pause that doubles with each consecutive exit up to
 *   `pauseMaxMs`. This never ends: the others can do without it, and what stops it (a full disk) may pass.
 * - A failed start counts as an exit; a failing onChange (for example on a full disk) does not.
 * - After `settledMs` of running, the count of consecutive exits restarts at zero.
 * - Beyond `reportedMax` consecutive exits, only a restart after a failed start is reported.
 * - stop() stops all children in reverse order of addition, and prevents further starts.
 */
import type { Exit } from './child.ts';

export interface Running {
  readonly pid: number;
  readonly exited: Promise<Exit>;
  hasExited(): boolean;
  stop(): Promise<void>;
}

export interface SupervisorOptions {
  /** Called with one line for an exit or a restart. */
  readonly say: (line: string) => void;
  /** Called whenever a child has a new pid. A failure is reported once, until a call succeeds again. */
  readonly onChange?: () => void;
  readonly pauseMs?: number;
  readonly pauseMaxMs?: number;
  readonly reportedMax?: number;
  readonly settledMs?: number;
}

type Start<T extends Running> = (isFirst: boolean) => Promise<T>;

interface Entry {
  readonly name: string;
  readonly start: Start<Running>;
  current: Running | undefined;
  /** Pending from the first start to the last exit; stop() waits for it. */
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

  /** Starts a child and keeps it running. A failure of the first start is thrown, not retried. */
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

  /** Name and pid of every running child. */
  list(): { name: string; pid: number }[] {
    return this.#entries.flatMap(({ name, current }) =>
      current === undefined || current.hasExited() ? [] : [{ name, pid: current.pid }],
    );
  }

  /** Ends all children, last added first. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const entry of [...this.#entries].reverse()) {
      await entry.current?.stop();
      await entry.life;
    }
  }

  async #watch(entry: Entry, first: Running): Promise<void> {
    const { reportedMax = 8, settledMs = 20_000, say } = this.#options;
    let running = first;
    let deaths = 0;
    while (!this.#stopping.signal.aborted) {
      const started = performance.now();
      const exit: Exit = await running.exited;
      // Releases its resources, such as the lock of its folder.
      await running.stop();
      if (this.#stopping.signal.aborted) return;
      if (performance.now() - started > settledMs) deaths = 0;
      deaths += 1;
      if (deaths <= reportedMax)
        say(
          `${entry.name} (pid ${running.pid}) exited unexpectedly (${exit.signal ?? `code ${exit.code}`}); restarting it`,
        );
      let failedStarts = 0;
      for (;;) {
        if (deaths === reportedMax)
          say(
            `${entry.name} exited ${deaths} times in a row. It will be restarted until it runs; see its log for the reason`,
          );
        await this.#pause(deaths);
        if (this.#stopping.signal.aborted) return;
        const again = await this.#startAgain(entry, deaths <= reportedMax);
        if (again !== undefined) {
          if (deaths <= reportedMax || failedStarts > 0) say(`${entry.name} was restarted (pid ${again.pid})`);
          running = again;
          break;
        }
        failedStarts++;
        deaths += 1;
      }
    }
    await running.stop();
  }

  async #startAgain(entry: Entry, isReported: boolean): Promise<Running | undefined> {
    try {
      entry.current = await entry.start(false);
    } catch (error) {
      const reason = error instanceof Error ? error.message : error;
      if (isReported) this.#options.say(`${entry.name} could not be restarted: ${reason}`);
      return undefined;
    }
    this.#noteChange();
    return entry.current;
  }

  /** A running child is supervised even if onChange fails. */
  #noteChange(): void {
    try {
      this.#options.onChange?.();
      this.#isFailureSaid = false;
    } catch (error) {
      if (this.#isFailureSaid) return;
      this.#isFailureSaid = true;
      this.#options.say(
        `writing the list of running processes failed: ${error instanceof Error ? error.message : error}`,
      );
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
