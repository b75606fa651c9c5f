/** Limits concurrency; further calls wait in a queue of bounded length, for a bounded time. */

interface Waiting {
  readonly go: () => void;
  readonly timer: NodeJS.Timeout;
}

export interface TurnsOptions {
  readonly openMax: number;
  readonly waitingMax: number;
  readonly waitMsMax: number;
}

export class Turns {
  readonly #options: TurnsOptions;
  readonly #line: Waiting[] = [];
  #open = 0;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** Each call that resolves must be followed by one `end`. @throws if the queue is full or does not advance. */
  async begin(): Promise<void> {
    const { openMax, waitingMax, waitMsMax } = this.#options;
    if (this.#open < openMax) {
      this.#open++;
      return;
    }
    if (this.#line.length >= waitingMax) throw new Error(`${waitingMax} requests are already waiting in line`);
    await new Promise<void>((go, fail) => {
      const refuse = () => {
        this.#line.splice(this.#line.indexOf(waiting), 1);
        fail(new Error(`waited in line for ${waitMsMax} ms`));
      };
      const waiting = { go, timer: setTimeout(refuse, waitMsMax) };
      this.#line.push(waiting);
    });
  }

  /** The turn passes to the next in the queue. */
  end(): void {
    const next = this.#line.shift();
    if (next === undefined) {
      this.#open--;
      return;
    }
    clearTimeout(next.timer);
    next.go();
  }
}
