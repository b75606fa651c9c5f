import { availableParallelism, loadavg } from 'node:os';

/** A time limit that holds on a quiet machine, longer by as much as the processes wait for a core on this one. */
export function whenQuiet(limitMs: number): number {
  return limitMs * Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());
}
