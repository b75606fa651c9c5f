import { expect, test } from 'vitest';
import { simulate, type TapPage } from '#gateway/testing/match-simulation.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';

/** The full measurement is `npm run bench -- matching`: a sample this small only shows whether a rule is broken. */
testCostlyCases<{ tapPage: TapPage; installs: number; whose: 'all' | 'ios'; least: number }>(
  [
    { tapPage: 'ios', installs: 800, whose: 'ios', least: 0.96 },
    { tapPage: 'off', installs: 1_500, whose: 'all', least: 0.75 },
  ],
  0,
  'with tap page $tapPage, most simulated installs are matched and hardly any get someone else’s link',
  async ({ tapPage, installs, whose, least }) => {
    const result = simulate({ installs, clicks: installs * 3, seed: 7, tapPage });
    const { found, findable } = result[whose];
    expect(found / findable).toBeGreaterThan(least);
    const wrong = result.bands.reduce((sum, { wrongLink }) => sum + wrongLink, 0);
    const matches = result.bands.reduce((sum, band) => sum + band.matches, 0);
    expect(matches).toBeGreaterThan(100);
    expect(wrong).toBeLessThanOrEqual(Math.max(3, matches * 0.004));
    for (const band of result.bands)
      expect(band.wrongLink, `from ${band.from} on`).toBeLessThanOrEqual(Math.max(2, band.matches * 0.01));
  },
  120_000,
);

test('the same seed gives the same people and the same matches', () => {
  const once = () => simulate({ installs: 300, clicks: 900, seed: 3, tapPage: 'off' });
  expect(once()).toEqual(once());
});
