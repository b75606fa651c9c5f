/** A small share of the faults of `npm run test:faults`, in every normal test run. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { ClickLoad } from '#deploy/faults/click-load.ts';
import { runDuplicates } from '#deploy/faults/duplicates.ts';
import { runFault } from '#deploy/faults/fault-run.ts';
import { nothingWrong, seed } from '#deploy/faults/fault-sizes.ts';
import { Stage } from '#deploy/faults/stage.ts';
import { storeNames } from '#deploy/faults/store.ts';

const redirectors = 2;

/** Waits until the load has had this many more redirects. */
async function redirected({ answers }: ClickLoad, more: number): Promise<void> {
  const wanted = (answers.get(302) ?? 0) + more;
  await vi.waitUntil(() => (answers.get(302) ?? 0) >= wanted, { timeout: 30_000, interval: 5 });
}

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start({ redirectors });
});
afterAll(() => stage.stop());

test('killing every process and every store once under load loses nothing and counts nothing twice', async () => {
  const { processes, stores } = stage;
  const options = { name: 'each killed', seed, clicks: 3_000, clicksPerSecond: 500 };
  const report = await runFault(stage, options, async ({ clicks, random, hit }) => {
    for (const name of processes.names) {
      await redirected(clicks, random.between(10, 150));
      await processes.kill(name);
      hit(`${name} killed`);
    }
    for (const name of storeNames) {
      await redirected(clicks, random.between(10, 150));
      await stores[name].crash();
      hit(`${name} killed`);
      if (name === 'nats') stores[name].wipe();
      await stores[name].start();
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test('a rolling restart of redirectors fails no request, and redirects continue while all stores are down', {
  tags: ['slow'],
}, async () => {
  const options = { name: 'restarted, and alone', seed, clicks: 2_000, clicksPerSecond: 500, eventSenders: 0 };
  const report = await runFault(stage, options, async ({ clicks, hit }) => {
    for (let one = 0; one < redirectors; one++) {
      await redirected(clicks, 100);
      await stage.processes.kill(`redirector-${one}`, 'SIGTERM');
      hit('redirector restarted');
    }
    for (const name of storeNames) stage.stores[name].proxy.refuse();
    await redirected(clicks, 1_000);
    hit('all stores unavailable');
    for (const name of storeNames) await stage.stores[name].proxy.heal();
  });
  expect(report).toMatchObject(nothingWrong);
  expect(report.cut).toBe(0);
  expect([...report.answers.keys()]).toEqual([302]);
});

test('events sent again while the SDK edge and ingest are killed count once, to the last digit of their sums', {
  tags: ['slow'],
}, async () => {
  const sizes = { events: 20_000, batchEvents: 100, kills: 1, seed };
  const { expected, raw, viaApi, viaApiByLink, rollup_diff } = await runDuplicates(stage, sizes);
  expect(raw).toEqual({ ...expected, ids: expected.events });
  const { events, conversions, revenue, byLink } = expected;
  for (const part of Object.values(viaApi)) expect(part).toEqual({ events, conversions, revenue });
  expect(viaApiByLink).toEqual(byLink);
  expect(rollup_diff).toBe(0);
});
