import { expect, test } from 'vitest';
import { simulate } from '#gateway/fixtures/match-simulation.ts';

test('of 20,000 simulated installs, under 1 % of the matches give a person somebody else’s link', () => {
  const { bands, found, findable } = simulate({ installs: 20_000, clicks: 60_000, seed: 7 });
  const sum = (pick: (band: (typeof bands)[number]) => number) => bands.reduce((total, band) => total + pick(band), 0);
  expect(sum((band) => band.wrongLink) / sum((band) => band.matches)).toBeLessThan(0.01);
  expect(bands.at(-1)?.wrongLink).toBeLessThan((bands.at(-1)?.matches ?? 0) * 0.002);
  expect(found / findable).toBeGreaterThan(0.6);
}, 30_000);
