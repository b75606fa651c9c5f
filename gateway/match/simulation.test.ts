import { expect, test } from 'vitest';
import { simulate } from '#gateway/fixtures/match-simulation.ts';

test('of 20,000 simulated installs, under 1 % of the matches at any confidence give a person somebody else’s link', () => {
  const { bands, found, findable } = simulate({ installs: 20_000, clicks: 60_000, seed: 7 });
  for (const { from, matches, wrongLink } of bands) {
    // A band of a few hundred matches is too small to tell a share of 1 % from chance.
    expect(wrongLink, `matches from ${from} on`).toBeLessThanOrEqual(Math.max(3, matches * 0.01));
  }
  const wrong = bands.reduce((sum, band) => sum + band.wrongLink, 0);
  expect(wrong / bands.reduce((sum, band) => sum + band.matches, 0)).toBeLessThan(0.004);
  expect(bands.at(-1)?.wrongLink).toBeLessThan((bands.at(-1)?.matches ?? 0) * 0.002);
  expect(found / findable).toBeGreaterThan(0.65);
}, 60_000);
