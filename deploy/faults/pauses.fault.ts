/** Processes and stores that are paused and then resumed, while clicks and events come in. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sleep, systemTime } from '#common/time.ts';
import { runFault } from './fault-run.ts';
import { nothingWrong, seed, times } from './fault-sizes.ts';
import { SecondIngest } from './second-ingest.ts';
import { Stage } from './stage.ts';
import { storeNames } from './store.ts';

const leaseSeconds = 2;
let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start({ settings: { LEASE_SECONDS: String(leaseSeconds) } });
});
afterAll(() => stage.stop());

test.each(storeNames)('pausing %s loses nothing and counts nothing twice', async (name) => {
  const store = stage.stores[name];
  const report = await runFault(stage, { name: `pause ${name}`, seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let rounds = 0; rounds < times(4); rounds++) {
      await sleep(systemTime, random.between(200, 2_000));
      store.freeze();
      hit('stopped');
      await sleep(systemTime, random.between(1_000, 12_000));
      store.thaw();
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test.each(['redirector-0', 'origin', 'publisher', 'ingest'])('pausing %s loses nothing', async (name) => {
  const report = await runFault(stage, { name: `pause ${name}`, seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let rounds = 0; rounds < times(4); rounds++) {
      await sleep(systemTime, random.between(200, 2_000));
      hit('stopped');
      await stage.processes.freeze(name, random.between(1_000, 10_000));
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test('an ingest that is paused for longer than its lease, while another one takes over, counts nothing twice', async () => {
  const second = await SecondIngest.start(stage.stack);
  try {
    const report = await runFault(stage, { name: 'two ingests', seed, clicks: 5_000 }, async ({ random, hit }) => {
      for (let rounds = 0; rounds < times(12); rounds++) {
        await sleep(systemTime, random.between(100, 3_000));
        const forMs = random.between(leaseSeconds * 1_000 + 200, leaseSeconds * 4_000);
        const first = random.next() < 0.5;
        hit(first ? 'first stopped' : 'second stopped');
        if (first) await stage.processes.freeze('ingest', forMs);
        else await second.freeze(forMs);
      }
    });
    expect(report).toMatchObject(nothingWrong);
  } finally {
    await second.stop();
  }
});
