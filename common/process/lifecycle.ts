/**
 * The life of a process: starting → running → stopping → ended.
 *
 * - Parts start in the given order, each after the previous one is up. If one fails, those already up are stopped in
 *   reverse order and the process exits with 1. A part that hangs is logged every few seconds, because it may be
 *   waiting for another server.
 * - SIGTERM or SIGINT: parts stop in reverse order; exit code 0. Each part finishes the work that it has accepted. All
 *   parts together have `drainMs`; then unfinished work is aborted, and the exit code is 1.
 * - A second signal exits immediately.
 * - An uncaught rejection or exception is a programming error: it is logged and the process crashes, so that
 *   its supervisor restarts it in a known state.
 */
import { constants } from 'node:os';

/** The logger interface of a lifecycle. */
export interface LifecycleLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  fatal(fields: object, message: string): void;
  /** Flushes buffered lines. */
  flush?(): void;
}

export interface Part {
  readonly name: string;
  readonly start?: () => Promise<unknown> | unknown;
  readonly stop?: () => Promise<unknown> | unknown;
}

export interface LifecycleOptions {
  readonly log: LifecycleLog;
  /** Time within which all parts together must have stopped. */
  readonly drainMs?: number;
  /** How often a part that is still starting is logged. */
  readonly stillStartingMs?: number;
  /** Replaced in tests. */
  readonly exit?: (code: number) => void;
  readonly signals?: NodeJS.EventEmitter;
}

export class Lifecycle {
  readonly #log: LifecycleLog;
  readonly #drainMs: number;
  readonly #stillStartingMs: number;
  readonly #exit: (code: number) => void;
  readonly #signals: NodeJS.EventEmitter;
  readonly #running: Part[] = [];
  #stopping: Promise<void> | undefined;

  constructor(options: LifecycleOptions) {
    this.#log = options.log;
    this.#drainMs = options.drainMs ?? 15_000;
    this.#stillStartingMs = options.stillStartingMs ?? 5_000;
    this.#exit = options.exit ?? ((code) => process.exit(code));
    this.#signals = options.signals ?? process;
  }

  /** Starts the parts and returns when all are up; from then on a signal ends the process. */
  async run(parts: readonly Part[]): Promise<void> {
    this.#listen();
    for (const part of parts) {
      if (this.#stopping !== undefined) return;
      const started = performance.now();
      const waitedMs = () => Math.round(performance.now() - started);
      const reminder = setInterval(
        () => this.#log.warn({ part: part.name, ms: waitedMs() }, 'still starting: its server does not answer'),
        this.#stillStartingMs,
      );
      try {
        await part.start?.();
      } catch (error) {
        this.#log.fatal({ part: part.name, err: error }, 'could not start');
        await this.stop('a part could not start', 1);
        return;
      } finally {
        clearInterval(reminder);
      }
      this.#running.push(part);
      this.#log.info({ part: part.name, ms: waitedMs() }, 'started');
    }
  }

  /** Stops everything in reverse order and ends the process. Calling it again changes nothing. */
  stop(reason: string, code = 0): Promise<void> {
    this.#stopping ??= this.#stopAll(reason, code);
    return this.#stopping;
  }

  async #stopAll(reason: string, code: number): Promise<void> {
    this.#log.info({ reason }, 'stopping');
    let result = code;
    const deadline = setTimeout(() => {
      this.#log.error({ drain_ms: this.#drainMs, parts: this.#running.map((part) => part.name) }, 'cut off');
      this.#end(1);
    }, this.#drainMs);
    for (let part = this.#running.pop(); part !== undefined; part = this.#running.pop()) {
      try {
        await part.stop?.();
        this.#log.info({ part: part.name }, 'stopped');
      } catch (error) {
        this.#log.error({ part: part.name, err: error }, 'could not stop');
        result = 1;
      }
    }
    clearTimeout(deadline);
    this.#end(result);
  }

  #listen(): void {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      this.#signals.on(signal, () => {
        if (this.#stopping !== undefined) this.#end(128 + constants.signals[signal]);
        void this.stop(signal);
      });
    }
    for (const event of ['unhandledRejection', 'uncaughtException']) {
      this.#signals.on(event, (error: unknown) => {
        this.#log.fatal({ err: error }, event);
        this.#end(1);
      });
    }
  }

  #end(code: number): void {
    this.#log.flush?.();
    this.#exit(code);
  }
}
