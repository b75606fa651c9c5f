/**
 * For tests that compare a simulated server with the real one: the same random operations must have the same outcomes.
 */
import type { Scheduler } from './scheduler.ts';

const callMsMax = 60_000;

/** The outcome of a call to a simulated server; virtual time passes until it is available. */
export async function simulated<T>(scheduler: Scheduler, call: () => Promise<T>): Promise<T> {
  let isOver = false;
  const outcome = call().finally(() => {
    isOver = true;
  });
  // The call may fail before it is awaited.
  outcome.catch(() => undefined);
  await scheduler.run(scheduler.now + callMsMax, () => isOver);
  if (!isOver) throw new Error('the simulated server does not answer');
  return await outcome;
}
