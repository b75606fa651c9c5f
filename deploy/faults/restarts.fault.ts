/** Processes that are restarted gracefully while clicks come in. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sleep, systemTime } from '#common/time.ts';
import { runFault } from './fault-run.ts';
import { nothingWrong, seed, times } from './fault-sizes.ts';
import { Stage } from './stage.ts';

const redirectors = 3;
let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start({ redirectors });
});
afterAll(() => stage.stop());

test('redirectors restarted in turn under load fail no request', async () => {
  const options = { name: 'rolling restart', seed, clicks: 5_000, eventSenders: 0 };
  const report = await runFault(stage, options, async ({ hit, clicks }) => {
    for (let rounds = 0; rounds < times(4); rounds++) {
      for (let one = 0; one < redirectors; one++) {
        await stage.processes.kill(`redirector-${one}`, 'SIGTERM');
        hit('redirector restarted');
        await sleep(systemTime, 300);
      }
    }
    console.log(`  latency p99 ${clicks.takeLatencies().p99.toFixed(1)} ms`);
  });
  expect(report).toMatchObject(nothingWrong);
  expect(report.clicks.unknown).toBe(0);
  expect([...report.answers.keys()]).toEqual([302]);
});

test.each(['ingest', 'publisher', 'origin'])('a graceful restart of %s loses nothing', async (name) => {
  const report = await runFault(stage, { name: `restart ${name}`, seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let rounds = 0; rounds < times(5); rounds++) {
      await sleep(systemTime, random.between(200, 2_000));
      await stage.processes.kill(name, 'SIGTERM');
      hit(`${name} restarted`);
    }
  });
  expect(report).toMatchObject(nothingWrong);
});
