/** A small share of the faults of `npm run test:faults`, in every normal test run. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runDuplicates } from '#deploy/faults/duplicates.ts';
import { runFault } from '#deploy/faults/fault-run.ts';
import { nothingWrong, seed } from '#deploy/faults/fault-sizes.ts';
import { Stage } from '#deploy/faults/stage.ts';
import { storeNames } from '#deploy/faults/store.ts';

const redirectors = 2;
let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start({ redirectors });
});
afterAll(() => stage.stop());

test('killing every process and every store once under load loses nothing and counts nothing twice', async () => {
  const { processes, stores } = stage;
  const options = { name: 'each killed', seed, clicks: 3_000, clicksPerSecond: 500 };
  const report = await runFault(stage, options, async ({ random, hit }) => {
    for (const name of processes.names) {
      await pause(random.between(20, 300));
      await processes.kill(name);
      hit(`${name} killed`);
    }
    for (const name of storeNames) {
      await pause(random.between(20, 300));
      await stores[name].crash();
      hit(`${name} killed`);
      if (name === 'nats') stores[name].wipe();
      await stores[name].start();
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test('a rolling restart of redirectors fails no request, and redirects continue while all stores are down', async () => {
  const options = { name: 'restarted, and alone', seed, clicks: 2_000, clicksPerSecond: 500, eventSenders: 0 };
  const report = await runFault(stage, options, async ({ hit }) => {
    for (let one = 0; one < redirectors; one++) {
      await stage.processes.kill(`redirector-${one}`, 'SIGTERM');
      hit('redirector restarted');
    }
    for (const name of storeNames) stage.stores[name].proxy.refuse();
    await pause(2_000);
    hit('all stores unavailable');
    for (const name of storeNames) await stage.stores[name].proxy.heal();
  });
  expect(report).toMatchObject(nothingWrong);
  expect(report.cut).toBe(0);
  expect([...report.answers.keys()]).toEqual([302]);
});

test('events sent again while the SDK edge and ingest are killed count once, to the last digit of their sums', async () => {
  const sizes = { events: 20_000, batchEvents: 100, kills: 1, seed };
  const { expected, raw, told, toldByLink, rollup_diff } = await runDuplicates(stage, sizes);
  expect(raw).toEqual({ ...expected, ids: expected.events });
  const { events, conversions, revenue, byLink } = expected;
  for (const part of Object.values(told)) expect(part).toEqual({ events, conversions, revenue });
  expect(toldByLink).toEqual(byLink);
  expect(rollup_diff).toBe(0);
});
