import { expect, test } from 'vitest';
import { runSeed } from './seed-run.ts';

/** Most safeguards are missed by one of the first seeds when they are removed, one by seed 122 (docs/measurements.md). */
const quick = [...range(1, 64), 122];
const more = range(65, 200).filter((seed) => seed !== 122);

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, n) => first + n);
}

test('a seed gives the same schedule each time', async () => {
  for (const seed of [1, 2, 3]) {
    const [first, second] = [await runSeed(seed), await runSeed(seed, true)];
    expect(second.fingerprint).toBe(first.fingerprint);
    expect(second.steps).toBe(first.steps);
  }
});

const title = (seeds: readonly number[]) =>
  `${seeds.length} seeds: what was answered is stored once, and everything comes to rest once the faults end`;

test(title(quick), { timeout: 300_000 }, () => expectNoFaults(quick));
test(title(more), { timeout: 600_000, tags: ['slow'] }, () => expectNoFaults(more));

async function expectNoFaults(seeds: readonly number[]): Promise<void> {
  const failed: { seed: number; faults: readonly string[] }[] = [];
  for (const seed of seeds) {
    const { faults } = await runSeed(seed);
    if (faults.length > 0) failed.push({ seed, faults });
  }
  expect(failed).toEqual([]);
}
