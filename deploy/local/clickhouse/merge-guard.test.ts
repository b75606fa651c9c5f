import { expect, test } from 'vitest';
import { MergeGuard } from './merge-guard.ts';

const GIB = 2 ** 30;

/** Runs a guard while the free space of a disk changes. */
async function statesOf(totalBytes: number, free: readonly number[]): Promise<string[]> {
  const states: string[] = [];
  let freeBytes = 0;
  const setMerges = async (state: 'STOP' | 'START') => void states.push(state);
  const guard = new MergeGuard({ room: () => ({ freeBytes, totalBytes }), setMerges, log: () => undefined });
  for (freeBytes of free) {
    const before = states.length;
    await guard.look();
    if (states.length === before) states.push('-');
  }
  return states;
}

test('merges stop below 1 GiB free on a large disk, stay stopped for new tables, and resume at 1.5 GiB', async () => {
  const states = await statesOf(
    100 * GIB,
    [50, 1.01, 0.99, 1.2, 1.49, 1.51, 1.01, 0.5].map((gib) => gib * GIB),
  );
  expect(states).toEqual(['-', '-', 'STOP', 'STOP', 'STOP', 'START', '-', 'STOP']);
});

test('the margin of a small disk is a tenth of its size', async () => {
  expect(
    await statesOf(
      GIB,
      [0.11, 0.09, 0.14, 0.16].map((gib) => gib * GIB),
    ),
  ).toEqual(['-', 'STOP', 'STOP', 'START']);
});

test('a guard that fails logs it, and checks again', async () => {
  const lines: string[] = [];
  let failures = 1;
  const setMerges = async () => {
    if (failures-- > 0) throw new Error('no session');
  };
  const guard = new MergeGuard({
    room: () => ({ freeBytes: 0, totalBytes: GIB }),
    setMerges,
    log: (line) => lines.push(line),
  });
  await guard.look();
  await guard.look();
  expect(lines).toEqual(['the merge guard failed: no session', '0 MiB are free: merges stop']);
});
