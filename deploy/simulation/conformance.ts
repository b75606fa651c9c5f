/**
 * For tests that run the same random operations on a simulated server and on the real one, and compare the outcomes.
 */
import type { Scheduler } from './scheduler.ts';

const callMsMax = 60_000;

/** Runs virtual time until a call to a simulated server has ended. @returns its outcome. */
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
