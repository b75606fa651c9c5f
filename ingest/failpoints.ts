/** Points in the sink, in order, at which a test can kill the process. In production, none is armed. */
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
  /** Called when the sink passes the failpoint. */
  pass(name: FailpointName): void;
}

export const noFailpoints: Failpoints = { pass: () => undefined };

/** Kills the process, as `kill -9` would, at the nth pass of a failpoint; `before:3` is the third pass of `before`. */
export function deadlyFailpoint(spec: string): Failpoints {
  const [name, count = '1'] = spec.split(':');
  let left = Number(count);
  return {
    pass: (passed) => {
      if (passed === name && --left === 0) process.kill(process.pid, 'SIGKILL');
    },
  };
}
