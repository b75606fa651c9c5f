/**
 * A background loop.
 *
 *   idle ──start──▶ running ──▶ waiting ──timer or wake──▶ running …   any ──stop──▶ stopped
 *
 * One pass at a time. After a pass that fails, the pause doubles from `everyMs` up to `pauseMaxMs`, with jitter, so that
 * many processes do not return to a store at once. An outage is logged once, and its end once.
 */
import { SECOND_MS } from '#common/durations.ts';
import { systemTime, type Time, type Timer } from '#common/time.ts';
import type { Part } from './lifecycle.ts';

const pauseMaxMs = 30 * SECOND_MS;

export type WorkerTime = Pick<Time, 'after' | 'clear'>;

export interface WorkerOptions {
  readonly name: string;
  /** @returns the pause until the next pass, if it is another than `everyMs`. Its failure is an outage. */
  readonly pass: () => Promise<number | undefined> | Promise<void>;
  readonly everyMs: number;
  /** Absent: half a minute, or `everyMs` if that is longer. */
  readonly pauseMaxMs?: number;
  readonly log: { warn(fields: object, line: string): void; info?(fields: object, line: string): void };
  /** What is logged when passes begin to fail, and when one succeeds again. */
  readonly failing: string;
  readonly working: string;
  /** Replaced in tests. */
  readonly time?: WorkerTime | undefined;
  readonly random?: () => number;
}

export class Worker implements Part {
  readonly name: string;
  readonly #options: WorkerOptions;
  readonly #time: WorkerTime;
  #isStarted = false;
  #isStopped = false;
  #timer: Timer | undefined;
  #running: Promise<boolean> | undefined;
  #next: Promise<boolean> | undefined;
  #failures = 0;

  constructor(options: WorkerOptions) {
    this.name = options.name;
    this.#options = options;
    this.#time = options.time ?? systemTime;
  }

  /** Whether the last pass failed. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** A long pass should end. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  start(): void {
    if (this.#isStarted) throw new Error(`${this.name} was started before`);
    this.#isStarted = true;
    this.wake();
  }

  /** Begins a pass now, or after the current one if there is one. Without effect before the start and after the stop. */
  wake(): void {
    if (this.#isStarted) void this.run();
  }

  /** Waits for the current pass; none begins after it. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#time.clear(this.#timer);
    await this.#running;
    await this.#next;
  }

  /** @returns whether a pass that began after this call succeeded. Never rejects; works without a start, too. */
  run(): Promise<boolean> {
    // Between two passes, the next one may be due already, though none is running.
    if (this.#next !== undefined) return this.#next;
    if (this.#running === undefined) return this.#begin();
    // The current pass may have read before the caller's change, so one more serves all callers that arrive during it.
    this.#next = this.#running.then(() => {
      this.#next = undefined;
      return this.#begin();
    });
    return this.#next;
  }

  #begin(): Promise<boolean> {
    if (this.#isStopped) return Promise.resolve(false);
    this.#time.clear(this.#timer);
    this.#running = this.#pass().then(({ isSuccess, pauseMs }) => {
      this.#running = undefined;
      if (this.#isStarted && !this.#isStopped) this.#wait(pauseMs);
      return isSuccess;
    });
    return this.#running;
  }

  async #pass(): Promise<{ readonly isSuccess: boolean; readonly pauseMs: number }> {
    try {
      const pauseMs = await this.#options.pass();
      this.#note(0);
      return { isSuccess: true, pauseMs: typeof pauseMs === 'number' ? pauseMs : this.#options.everyMs };
    } catch (error) {
      this.#note(this.#failures + 1, error);
      return { isSuccess: false, pauseMs: this.#pauseMs() };
    }
  }

  #pauseMs(): number {
    const { everyMs, pauseMaxMs: maxMs = pauseMaxMs, random = Math.random } = this.#options;
    const pauseMs = Math.min(everyMs * 2 ** Math.min(this.#failures - 1, 20), Math.max(maxMs, everyMs));
    return pauseMs * (0.75 + random() / 2);
  }

  #note(failures: number, err?: unknown): void {
    const { log, failing, working } = this.#options;
    if (failures === 1) log.warn({ err }, failing);
    if (failures === 0 && this.#failures > 0) log.info?.({ failed_passes: this.#failures }, working);
    this.#failures = failures;
  }

  #wait(ms: number): void {
    this.#timer = this.#time.after(ms, () => void this.run());
    // A loop alone does not keep a process running.
    (this.#timer as Partial<NodeJS.Timeout>).unref?.();
  }
}
