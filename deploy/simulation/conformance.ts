/** For tests that hold a simulated server against the real one: the same operations, drawn by chance, must have the same outcomes. */
import type { Scheduler } from './scheduler.ts';

const callMsMax = 60_000;

/** The outcome of a call to a simulated server; virtual time passes until it is there. */
export async function simulated<T>(scheduler: Scheduler, call: () => Promise<T>): Promise<T> {
  let isOver = false;
  const outcome = call().finally(() => {
    isOver = true;
  });
  // It may fail before it is waited for.
  outcome.catch(() => undefined);
  await scheduler.run(scheduler.now + callMsMax, () => isOver);
  if (!isOver) throw new Error('the simulated server does not answer');
  return await outcome;
}
