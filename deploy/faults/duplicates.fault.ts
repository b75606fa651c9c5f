/**
 * Sends many events, a third of the requests twice, and kills the gateway and ingest meanwhile: each event counts once,
 * to the last digit.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runDuplicates } from './duplicates.ts';
import { seed, sized, times } from './fault-sizes.ts';
import { Stage } from './stage.ts';

/**
 * Batches of 20,000 events produce much garbage: what matters is that a run of ten times the size needs no more memory.
 */
const MEMORY_MIB_MAX = 1_200;

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start();
});
afterAll(() => stage.stop());

test('events that are sent again, at once, later or after all others, count once by name, link and currency', async () => {
  const sizes = { events: sized('FAULTS_EVENTS', 100_000), batchEvents: 100, kills: times(5), seed };
  const { expected, raw, viaApi, viaApiByLink, rollup_diff, mostMib } = await runDuplicates(stage, sizes);
  expect(raw).toEqual({ ...expected, ids: expected.events });
  const { events, conversions, revenue, byLink } = expected;
  for (const part of Object.values(viaApi)) expect(part).toEqual({ events, conversions, revenue });
  expect(viaApiByLink).toEqual(byLink);
  expect(rollup_diff).toBe(0);
  for (const most of Object.values(mostMib)) expect(most).toBeLessThan(MEMORY_MIB_MAX);
});
