/**
 * Kills and freezes the processes that a launcher supervises. It waits up to 5 seconds before it restarts a child that
 * keeps dying within 20 seconds, so none is killed many times in a row.
 */
import { sleep, systemTime } from '#common/time.ts';
import type { Stack } from '#deploy/journeys/stack.ts';

const deathsInARowMax = 5;
const settledMs = 21_000;
const pollMs = 20;
/** The limit for a start that hangs: on a busy machine, a start can take minutes. */
const backWithinMs = 180_000;

interface Life {
  pid: number;
  sinceMs: number;
  deaths: number;
}

export class StackProcesses {
  readonly #stack: Stack;
  readonly #lives = new Map<string, Life>();

  constructor(stack: Stack) {
    this.#stack = stack;
  }

  /** Names of the processes that the launcher runs now. */
  get names(): string[] {
    return this.#stack.parts.map((part) => part.name);
  }

  /** Whether the launcher would survive a kill now. */
  mayDie(name: string): boolean {
    const life = this.#lives.get(name);
    return life === undefined || life.deaths < deathsInARowMax || Date.now() - life.sinceMs > settledMs;
  }

  /** Ends the process and waits until another one of that name runs. */
  async kill(name: string, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    while (!this.mayDie(name)) await sleep(systemTime, 100);
    const life = this.#lives.get(name);
    const deaths = life === undefined || Date.now() - life.sinceMs > settledMs ? 1 : life.deaths + 1;
    const pid = this.#stack.pidOf(name);
    process.kill(pid, signal);
    const deadline = Date.now() + backWithinMs;
    for (;;) {
      const now = this.#stack.parts.find((part) => part.name === name)?.pid;
      if (now !== undefined && now !== pid) {
        this.#lives.set(name, { pid: now, sinceMs: Date.now(), deaths });
        return;
      }
      if (Date.now() > deadline) throw new Error(`${name} did not come back:\n${this.#stack.output.slice(-2000)}`);
      await sleep(systemTime, pollMs);
    }
  }

  async freeze(name: string, forMs: number): Promise<void> {
    const pid = this.#stack.pidOf(name);
    process.kill(pid, 'SIGSTOP');
    try {
      await sleep(systemTime, forMs);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  }
}
