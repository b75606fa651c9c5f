/** Connections to the stores that are slow, reset in the middle of an answer, refused, or silent for good. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SeededRandom } from './dice.ts';
import { runFault } from './fault-run.ts';
import { Stage } from './stage.ts';
import { storeNames } from './store.ts';
import type { TcpProxy } from './tcp-proxy.ts';
import { nothingWrong, seed, times } from './test-sizes.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start();
});
afterAll(() => stage.stop());

const faults: Record<string, (proxy: TcpProxy, dice: SeededRandom) => Promise<void>> = {
  slow: async (proxy, dice) => {
    proxy.slow(dice.between(20, 400));
    await pause(dice.between(1_000, 4_000));
  },
  'reset in the middle of an answer': async (proxy, dice) => {
    for (let resets = 0; resets < 5; resets++) {
      proxy.resetAfter(dice.between(1, 3_000));
      await pause(dice.between(50, 400));
    }
  },
  refused: async (proxy, dice) => {
    proxy.refuse();
    await pause(dice.between(500, 4_000));
  },
  silent: async (proxy, dice) => {
    proxy.silence();
    await pause(dice.between(500, 6_000));
  },
};

const cases = storeNames.flatMap((name) => Object.keys(faults).map((fault) => [name, fault] as const));

test.each(cases)('connections to %s that are %s lose nothing and count nothing twice', async (name, fault) => {
  const { proxy } = stage.stores[name];
  const make = faults[fault];
  if (make === undefined) throw new Error(`${fault} is no fault`);
  const options = { name: `${name} ${fault}`, seed, clicks: 3_000, settleMs: 90_000 };
  const report = await runFault(stage, options, async ({ dice, hit }) => {
    for (let rounds = 0; rounds < times(5); rounds++) {
      await pause(dice.between(100, 1_000));
      const before = proxy.hits;
      await make(proxy, dice);
      await proxy.heal();
      if (proxy.hits > before) hit(`${proxy.hits - before} connections`);
    }
  });
  expect(report).toMatchObject(nothingWrong);
});
