import { readFileSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';

/** A time limit that holds on a quiet machine, longer by as much as the processes wait for a core on this one. */
export function whenQuiet(limitMs: number): number {
  return limitMs * Math.max(1, Math.max(loadavg()[0] ?? 0, runnableNow()) / availableParallelism());
}

/** The average notices a minute late that several installations start. 0 where there is no /proc. */
function runnableNow(): number {
  try {
    return Number(/ (\d+)\//.exec(readFileSync('/proc/loadavg', 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
