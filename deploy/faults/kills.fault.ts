/** Processes and stores killed at random moments while clicks and events come in. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sleep, systemTime } from '#common/time.ts';
import { runFault } from './fault-run.ts';
import { nothingWrong, seed, times } from './fault-sizes.ts';
import { Stage } from './stage.ts';

const redirectors = 4;
let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start({ redirectors });
});
afterAll(() => stage.stop());

test('redirectors killed a hundred times lose no click that was answered', async () => {
  const report = await runFault(stage, { name: 'kill redirector', seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let kills = 0; kills < times(100); kills++) {
      await sleep(systemTime, random.between(20, 500));
      await stage.processes.kill(`redirector-${kills % redirectors}`);
      hit('redirector killed');
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test.each([
  ['origin', 20],
  ['publisher', 20],
  ['ingest', 40],
])('%s killed %d times at random loses nothing and counts nothing twice', async (name, full) => {
  const report = await runFault(stage, { name: `kill ${name}`, seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let kills = 0; kills < times(full); kills++) {
      await sleep(systemTime, random.between(50, 2_000));
      await stage.processes.kill(name);
      hit(`${name} killed`);
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test('ClickHouse killed during inserts loses nothing and counts nothing twice', async () => {
  const { clickhouse } = stage.stores;
  const report = await runFault(stage, { name: 'kill clickhouse', seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let kills = 0; kills < times(60); kills++) {
      await sleep(systemTime, random.between(20, 1_500));
      await clickhouse.kill();
      hit('clickhouse killed');
      await sleep(systemTime, random.between(0, 300));
      await clickhouse.start();
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test('ClickHouse and ingest killed in the same moment lose nothing and count nothing twice', async () => {
  const { clickhouse } = stage.stores;
  const report = await runFault(stage, { name: 'kill both', seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let kills = 0; kills < times(15); kills++) {
      await sleep(systemTime, random.between(20, 1_500));
      const back = stage.processes.kill('ingest');
      await sleep(systemTime, random.between(0, 20));
      await clickhouse.kill();
      hit('both killed');
      await clickhouse.start();
      await back;
    }
  });
  expect(report).toMatchObject(nothingWrong);
});
