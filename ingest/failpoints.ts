/** Places where a test can make the process die, in their order. In production nothing is ever armed. */
export const failpointNames = [
  'taken',
  'formed',
  'before',
  'part_inserted',
  'inserted',
  'after',
  'announced',
  'learned_before',
  'learned_inserted',
] as const;
export type FailpointName = (typeof failpointNames)[number];

export interface Failpoints {
  /** Called when the sink passes the place. */
  pass(name: FailpointName): void;
}

export const noFailpoints: Failpoints = { pass: () => undefined };

/** Kills the process, as `kill -9` would, at the nth passing of a place, spelled `before:3`. */
export function deadlyFailpoint(spec: string): Failpoints {
  const [name, count = '1'] = spec.split(':');
  let left = Number(count);
  return {
    pass: (passed) => {
      if (passed === name && --left === 0) process.kill(process.pid, 'SIGKILL');
    },
  };
}
