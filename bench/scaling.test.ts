/** Tests the calculation of scaling limits, and that docs/scaling.md matches it. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { limits, type Measured, planFor, readMeasured } from './scaling.ts';
import { scalingPage } from './scaling-page.ts';

/** Round figures, so that the expected values can be checked by hand. */
const round: Measured = {
  ...{
    redirector: 10,
    connection: 190,
    proxy: 250,
    publisher: 5,
    nats: 7,
    ingest: 20,
    clickhouse: 14,
    redis: 7,
    postgres: 1,
  },
  diskBytes: 100,
};

test('a plan multiplies the rate by what was measured', () => {
  const plan = planFor(100_000, round);
  expect(plan.redirectors).toBe(40);
  expect(plan.proxiedRedirectors).toBe(2);
  expect(plan.proxyCores).toBeCloseTo(50);
  expect(plan.ingestCores).toBeCloseTo((100_000 * 20e-6) / 0.7);
  expect(plan.natsCores).toBeCloseTo(3);
  expect(plan.clickhouseCores).toBeCloseTo(2);
  expect(plan.partitions).toBe(3);
  expect(plan.installations).toBe(1);
  expect(plan.logBytesPerSecond).toBe(60_000_000);
  expect(plan.journalBytesPerHour).toBe((60_000_000 * 3600) / plan.edges);
  expect(plan.diskBytesPerDay).toBe(100_000 * 100 * 86_400);
  expect(plan.redisBytes).toBeCloseTo(100_000 * (0.6 * 178 * 6 * 3600 + 129 * 900));
});

test('more clicks never need less, and a slower part is full earlier', () => {
  const plans = [1, 1_000, 30_000, 1_000_000].map((rate) => planFor(rate, round));
  for (const [at, plan] of plans.entries()) {
    const less = plans[at - 1];
    if (!less) continue;
    for (const name of [
      'redirectors',
      'proxiedRedirectors',
      'edges',
      'machines',
      'partitions',
      'installations',
      'redisBytes',
      'diskBytesPerDay',
    ] as const) {
      expect(plan[name], name).toBeGreaterThanOrEqual(less[name]);
    }
  }
  expect(limits({ ...round, ingest: 40 }).ingest).toBe(limits(round).ingest / 2);
});

test('docs/scaling.md is what the measured figures give', () => {
  expect(readFileSync('docs/scaling.md', 'utf8'), 'npm run generate writes it').toBe(scalingPage());
  const measured = readMeasured();
  expect(scalingPage({ ...measured, ingest: measured.ingest * 2 })).not.toBe(scalingPage());
});
