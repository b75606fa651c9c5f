/** Runs a fixed set of seeds of the simulation; `npm run test:simulation` runs any number. */
import { expect, test } from 'vitest';
import { runSeed } from './seed-run.ts';

const seeds = 200;

test('a seed gives the same schedule each time', async () => {
  for (const seed of [1, 2, 3]) {
    const [first, second] = [await runSeed(seed), await runSeed(seed, true)];
    expect(second.fingerprint).toBe(first.fingerprint);
    expect(second.steps).toBe(first.steps);
  }
});

test(`in ${seeds} seeds, every accepted record is stored once, and everything comes to rest once the faults end`, {
  timeout: 300_000,
}, async () => {
  const failed: { seed: number; faults: readonly string[] }[] = [];
  for (let seed = 1; seed <= seeds; seed++) {
    const { faults } = await runSeed(seed);
    if (faults.length > 0) failed.push({ seed, faults });
  }
  expect(failed).toEqual([]);
});
