/**
 * A simulated operating-system process. It reaches the outside only through its own `Time` and its ports. When it is
 * killed, none of its callbacks runs any more and none of its calls is answered; when it is frozen, both are held back
 * until it is thawed.
 */
import type { Time } from '#common/time.ts';
import type { Scheduler, Step } from './scheduler.ts';

/** Thrown by the calls of a dead program, to end its running code; never reported. */
export class Killed extends Error {
  constructor() {
    super('This process was killed.');
    this.name = 'Killed';
  }
}

/** How late a timer usually fires at most. */
const timerLateMs = 1;
const turnMs = 0.1;

/** A handle from `Time`. A timer that has expired may still be held back; clearing it removes its callback. */
interface ArmedTimer {
  step: Step | undefined;
  callback: (() => void) | undefined;
}

/** The clocks of a machine. */
export interface MachineClock {
  /** Epoch milliseconds at true time 0. */
  readonly wallAtZero: number;
  /** The error of the wall clock. */
  wallOffsetMs: number;
  /** True time at which it was booted. */
  bootedAt: number;
}

export class Program {
  readonly name: string;
  readonly scheduler: Scheduler;
  readonly time: Time;
  state: 'running' | 'frozen' | 'dead' = 'running';
  /** The uncaught error that ended it, as it would end a real process. */
  failure: unknown;
  readonly #held: (() => void)[] = [];
  readonly #atDeath: (() => void)[] = [];
  readonly #atFreeze: (() => void)[] = [];

  constructor(name: string, scheduler: Scheduler, clock: MachineClock) {
    this.name = name;
    this.scheduler = scheduler;
    this.time = this.#timeBy(clock);
  }

  get isDead(): boolean {
    return this.state === 'dead';
  }

  /** Runs a callback in this program: now, once it is thawed, or never. */
  enter(callback: () => void): void {
    if (this.state === 'dead') return;
    if (this.state === 'frozen') {
      this.#held.push(callback);
      return;
    }
    try {
      callback();
    } catch (error) {
      this.failed(error);
    }
  }

  /** @throws Killed in a dead program: for calls that return immediately. */
  ensureAlive(): void {
    if (this.state === 'dead') throw new Killed();
  }

  /** Ends with an uncaught error. */
  failed(error: unknown): void {
    if (error instanceof Killed || this.state === 'dead') return;
    this.failure = error;
    this.scheduler.note(() => `${this.name} ended with ${error instanceof Error ? error.stack : String(error)}`);
    this.kill();
  }

  /** Registers what the operating system does when the program is gone, such as closing its connections. */
  atDeath(callback: () => void): void {
    this.#atDeath.push(callback);
  }

  kill(): void {
    if (this.state === 'dead') return;
    this.state = 'dead';
    this.#held.length = 0;
    for (const callback of this.#atDeath) callback();
  }

  atFreeze(callback: () => void): void {
    this.#atFreeze.push(callback);
  }

  freeze(): void {
    if (this.state !== 'running') return;
    this.state = 'frozen';
    for (const callback of this.#atFreeze) callback();
  }

  thaw(): void {
    if (this.state !== 'frozen') return;
    this.state = 'running';
    const held = this.#held.splice(0);
    // Each in a turn of its own, in order.
    for (const [at, callback] of held.entries()) this.scheduler.after(at * 1e-6, () => this.enter(callback));
  }

  #timeBy(clock: MachineClock): Time {
    const { scheduler } = this;
    const { random } = scheduler;
    return {
      now: () => Math.floor(clock.wallAtZero + clock.wallOffsetMs + scheduler.now),
      elapsed: () => scheduler.now - clock.bootedAt,
      after: (ms, callback) => {
        const timer: ArmedTimer = { step: undefined, callback };
        timer.step = scheduler.after(Math.max(1, ms) + random.next() * timerLateMs, () =>
          this.enter(() => timer.callback?.()),
        );
        return timer;
      },
      every: (ms, callback) => {
        const timer: ArmedTimer = { step: undefined, callback };
        const arm = () => {
          timer.step = scheduler.after(Math.max(1, ms) + random.next() * timerLateMs, () => this.enter(fire));
        };
        const fire = () => {
          if (timer.callback !== undefined) arm();
          timer.callback?.();
        };
        arm();
        return timer;
      },
      clear: (given) => {
        if (given === undefined) return;
        const timer = given as ArmedTimer;
        if (timer.step !== undefined) scheduler.cancel(timer.step);
        timer.callback = undefined;
      },
      atTurnEnd: (callback) => void scheduler.after(random.next() * turnMs, () => this.enter(callback)),
    };
  }
}
