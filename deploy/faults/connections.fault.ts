/** Connections to the stores that are slow, reset in the middle of a response, refused, or permanently silent. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sleep, systemTime } from '#common/time.ts';
import type { SeededRandom } from '#testing/seeded-random.ts';
import { runFault } from './fault-run.ts';
import { nothingWrong, seed, times } from './fault-sizes.ts';
import { Stage } from './stage.ts';
import { storeNames } from './store.ts';
import type { TcpProxy } from './tcp-proxy.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start();
});
afterAll(() => stage.stop());

const faults: Record<string, (proxy: TcpProxy, random: SeededRandom) => Promise<void>> = {
  slow: async (proxy, random) => {
    proxy.slow(random.between(20, 400));
    await sleep(systemTime, random.between(1_000, 4_000));
  },
  'reset in the middle of an answer': async (proxy, random) => {
    for (let resets = 0; resets < 5; resets++) {
      proxy.resetAfter(random.between(1, 3_000));
      await sleep(systemTime, random.between(50, 400));
    }
  },
  refused: async (proxy, random) => {
    proxy.refuse();
    await sleep(systemTime, random.between(500, 4_000));
  },
  silent: async (proxy, random) => {
    proxy.silence();
    await sleep(systemTime, random.between(500, 6_000));
  },
};

const cases = storeNames.flatMap((name) => Object.keys(faults).map((fault) => [name, fault] as const));

test.each(cases)('connections to %s that are %s lose nothing and count nothing twice', async (name, fault) => {
  const { proxy } = stage.stores[name];
  const make = faults[fault];
  if (make === undefined) throw new Error(`${fault} is not a known fault`);
  const options = { name: `${name} ${fault}`, seed, clicks: 3_000, settleMs: 90_000 };
  const report = await runFault(stage, options, async ({ random, hit }) => {
    for (let rounds = 0; rounds < times(5); rounds++) {
      await sleep(systemTime, random.between(100, 1_000));
      const before = proxy.hits;
      await make(proxy, random);
      await proxy.heal();
      if (proxy.hits > before) hit(`${proxy.hits - before} connections`);
    }
  });
  expect(report).toMatchObject(nothingWrong);
});
