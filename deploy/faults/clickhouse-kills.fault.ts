/** ClickHouse killed a thousand times while ingest inserts into it without a pause. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runFault } from './fault-run.ts';
import { Stage } from './stage.ts';
import { nothingWrong, seed, times } from './test-sizes.ts';

const lifeMsMax = 400;
const quietMsMax = 100;

let stage: Stage;
beforeAll(async () => {
  // The shortest there is, so that nearly all the time some insert is under way.
  stage = await Stage.start({ settings: { INGEST_FLUSH_INTERVAL_MS: '20' } });
});
afterAll(() => stage.stop());

test('ClickHouse killed a thousand times during inserts loses nothing and counts nothing twice', async () => {
  const { clickhouse } = stage.stores;
  const batches = () => stage.metric('ingest', 'ingest_sink_total', 'what="batches"');
  const options = {
    name: 'kill clickhouse a thousand times',
    seed,
    clicks: 5_000,
    clicksPerSecond: 500,
    settleMs: 120_000,
  };
  const report = await runFault(stage, options, async ({ dice, hit }) => {
    for (let kills = 0; kills < times(1_000); kills++) {
      const before = await batches();
      await pause(dice.between(0, lifeMsMax));
      await clickhouse.kill();
      hit('clickhouse killed');
      if ((await batches()) > before) hit('killed behind batches that it had stored in this life');
      await pause(dice.between(0, quietMsMax));
      await clickhouse.start();
    }
  });
  const outcomes: Record<string, number> = {};
  for (const what of [
    'batches',
    'doubted_stored',
    'doubted_partial',
    'doubted_discarded',
    'filled_rollups',
    'rollups_ahead',
  ]) {
    outcomes[what] = await stage.metric('ingest', 'ingest_sink_total', `what="${what}"`);
  }
  console.log(outcomes);
  expect(report).toMatchObject(nothingWrong);
  expect(outcomes['doubted_stored']).toBeGreaterThan(0);
});
