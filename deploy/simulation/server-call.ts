/**
 * A program's call to a simulated database: the request takes time, and so does the answer. Either can be lost, the
 * server can die in between, and a call that the program has given up on may still be executed.
 */
import type { LinkCondition } from './machine.ts';
import type { Program } from './program.ts';
import type { Scheduler } from './scheduler.ts';

/** The current faults between programs and a server. */
export interface CallFaults {
  /** Probability that a request or an answer is lost with its connection. */
  lost: number;
  /** Probability that the connection is lost while a request waits; the server executes it anyway. */
  orphaned: number;
  /** Maximum milliseconds that the server delays a request. */
  waitMsMax: number;
  /** Probability that the calling program dies before it receives the answer. */
  killsCaller: number;
}

export function noCallFaults(): CallFaults {
  return { lost: 0, orphaned: 0, waitMsMax: 2, killsCaller: 0 };
}

const lostWithinMs = 30;

/** The part of a simulated database server that executes calls. */
export class CallableServer {
  isUp = true;
  faults = noCallFaults();
  /** Grows with each start: requests to an earlier run get no answer. */
  run = 1;
  readonly scheduler: Scheduler;
  /** By lock, when the last transaction that holds it ends. */
  #locks = new Map<string, number>();

  constructor(scheduler: Scheduler) {
    this.scheduler = scheduler;
  }

  start(): void {
    if (this.isUp) return;
    this.isUp = true;
    this.run++;
    this.#locks = new Map();
  }

  /**
   * When a request that arrives now is executed. One that takes a lock waits for earlier holders, including one whose
   * client has given up: a COMMIT that arrives late holds its rows until then.
   */
  turnOf(lock: string): number {
    const { now, random } = this.scheduler;
    const at = Math.max(now + random.next() * this.faults.waitMsMax, lock === '' ? 0 : (this.#locks.get(lock) ?? 0));
    if (lock !== '') this.#locks.set(lock, at);
    return at;
  }
}

export interface Caller {
  readonly program: Program;
  readonly link: LinkCondition;
  /** How long to wait for an answer. */
  readonly timeoutMs: number;
  /** The error for an answer that did not arrive. */
  readonly unavailable: (why: string) => Error;
}

/**
 * @param carryOut runs in the server, and may take additional time; what it throws is its answer. @param lock what it
 * locks in the server; empty for nothing.
 */
export function call<T>(caller: Caller, server: CallableServer, carryOut: () => T | Promise<T>, lock = ''): Promise<T> {
  const { program, link, timeoutMs, unavailable } = caller;
  const { scheduler } = server;
  const { random } = scheduler;
  return new Promise<T>((done, fail) => {
    let isOver = false;
    const answer = (give: () => void) => {
      if (isOver) return;
      isOver = true;
      scheduler.cancel(timer);
      program.enter(give);
    };
    const failed = (why: string) => answer(() => fail(unavailable(why)));
    // A program's timeout runs while it is frozen, but takes effect only when it continues.
    const timer = scheduler.after(timeoutMs, () => failed('no answer in time'));
    const latency = () => random.next() * link.latencyMsMax;
    const isLost = () => server.faults.lost > 0 && random.next() < server.faults.lost;
    scheduler.after(latency(), () => {
      if (link.isCut) return;
      if (!server.isUp || isLost()) {
        scheduler.after(latency(), () => failed('the connection was refused or lost'));
        return;
      }
      const { run } = server;
      if (server.faults.orphaned > 0 && random.next() < server.faults.orphaned)
        scheduler.after(random.next() * lostWithinMs, () => failed('the connection was lost'));
      const reply = (give: () => void) =>
        scheduler.after(latency(), () => {
          if (link.isCut) return;
          if (server.run !== run || !server.isUp || isLost()) failed('the connection was lost');
          else answer(give);
        });
      scheduler.after(server.turnOf(lock) - scheduler.now, () => {
        if (server.run !== run || !server.isUp) {
          failed('the server has died');
          return;
        }
        if (server.faults.killsCaller > 0 && random.next() < server.faults.killsCaller) {
          scheduler.after(random.next() * lostWithinMs, () => program.kill());
        }
        // The connection can be lost without the server noticing; the server then continues.
        if (isLost()) scheduler.after(random.next() * lostWithinMs, () => failed('the connection was lost'));
        // Wrapped in a promise, so that what it throws becomes its answer.
        void (async () => await carryOut())().then(
          (value) => reply(() => done(value)),
          (error: unknown) => reply(() => fail(error)),
        );
      });
    });
  });
}
