/** Kills stores, wipes their data, or makes them unavailable together, while clicks and events come in. */
import { readdirSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sleep, systemTime } from '#common/time.ts';
import { runFault } from './fault-run.ts';
import { nothingWrong, seed, times } from './fault-sizes.ts';
import { RedisWire } from './redis-wire.ts';
import { Stage } from './stage.ts';
import { storeNames } from './store.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start();
});
afterAll(() => stage.stop());

test('killing the log server at random loses nothing', async () => {
  const { nats } = stage.stores;
  const report = await runFault(stage, { name: 'kill nats', seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let kills = 0; kills < times(60); kills++) {
      await sleep(systemTime, random.between(20, 1_000));
      await nats.kill();
      hit('nats killed');
      await sleep(systemTime, random.between(0, 300));
      await nats.start();
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test('wiping the log while the sink lags behind it loses nothing', async () => {
  const { nats } = stage.stores;
  const report = await runFault(stage, { name: 'wipe nats', seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let rounds = 0; rounds < times(8); rounds++) {
      const lag = stage.processes.freeze('ingest', random.between(500, 2_500));
      await sleep(systemTime, random.between(100, 1_000));
      await nats.kill();
      nats.wipe();
      hit('nats wiped');
      await nats.start();
      await lag;
      await sleep(systemTime, random.between(200, 2_000));
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test('cutting off the tail of the log loses nothing', async () => {
  const { nats } = stage.stores;
  const report = await runFault(stage, { name: 'cut nats', seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let rounds = 0; rounds < times(15); rounds++) {
      await sleep(systemTime, random.between(100, 1_500));
      await nats.kill();
      for (const file of blocksOf(nats.dataDir)) {
        const { size } = statSync(file);
        truncateSync(file, Math.max(0, size - random.between(1, Math.min(size, 200_000))));
        hit('file cut');
      }
      await nats.start();
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

/** The newest block of messages of each stream. */
function blocksOf(dataDir: string): string[] {
  const all = readdirSync(join(dataDir, 'store'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.blk') && path.includes('/msgs/'))
    .map((path) => join(dataDir, 'store', path));
  const youngest = new Map<string, string>();
  const number = (path: string) => Number(/(\d+)\.blk$/.exec(path)?.[1] ?? 0);
  for (const path of all) {
    const folder = path.slice(0, path.lastIndexOf('/'));
    const known = youngest.get(folder);
    if (known === undefined || number(known) < number(path)) youngest.set(folder, path);
  }
  return [...youngest.values()].filter((path) => statSync(path).size > 0);
}

test('killing and emptying Redis loses nothing', async () => {
  const { redis } = stage.stores;
  const report = await runFault(stage, { name: 'kill redis', seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let rounds = 0; rounds < times(30); rounds++) {
      await sleep(systemTime, random.between(20, 1_000));
      if (random.next() < 0.5) {
        await RedisWire.send(redis.directUrl, 'FLUSHALL');
        hit('redis emptied');
      } else {
        await redis.kill();
        hit('redis killed');
        await sleep(systemTime, random.between(0, 500));
        await redis.start();
      }
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test('stopping Postgres abruptly, again and again, loses nothing', async () => {
  const { postgres } = stage.stores;
  const report = await runFault(stage, { name: 'crash postgres', seed, clicks: 5_000 }, async ({ random, hit }) => {
    for (let rounds = 0; rounds < times(30); rounds++) {
      await sleep(systemTime, random.between(20, 1_500));
      await postgres.crash();
      hit('postgres stopped');
      await sleep(systemTime, random.between(0, 500));
      await postgres.start();
    }
  });
  expect(report).toMatchObject(nothingWrong);
});

test('with all four stores down, a link that was served before redirects as fast as before, and no click is missing afterwards', async () => {
  const outageMs = times(30) * 1_000;
  const report = await runFault(stage, { name: 'all unavailable', seed, clicks: 5_000 }, async ({ clicks, hit }) => {
    await sleep(systemTime, 5_000);
    const before = clicks.takeLatencies();
    const memoryBefore = await stage.metric('redirector-0', 'process_resident_memory_bytes');
    const answersBefore = clicks.answers.get(302) ?? 0;
    for (const name of storeNames) stage.stores[name].proxy.refuse();
    await Promise.all(storeNames.map((name) => stage.stores[name].crash()));
    await sleep(systemTime, outageMs);
    const during = clicks.takeLatencies();
    const memoryDuring = await stage.metric('redirector-0', 'process_resident_memory_bytes');
    hit(`all four unavailable for ${outageMs / 1000} s`);
    console.log(
      `  p50/p99/max ms before ${numbers(before)}, during the outage ${numbers(during)}; redirector ${mebibytes(memoryBefore)} → ${mebibytes(memoryDuring)} MiB`,
    );
    await Promise.all(storeNames.map((name) => stage.stores[name].start()));
    await Promise.all(storeNames.map((name) => stage.stores[name].proxy.heal()));
    expect([...clicks.answers.keys()]).toEqual([302]);
    expect((clicks.answers.get(302) ?? 0) - answersBefore).toBeGreaterThan(outageMs / 4);
    expect(during.p50).toBeLessThan(Math.max(5, before.p50 * 3));
    expect(during.p99).toBeLessThan(Math.max(50, before.p99 * 3));
    expect(memoryDuring).toBeLessThan(memoryBefore + 60 * 1_048_576);
  });
  expect(report).toMatchObject(nothingWrong);
  await expect
    .poll(() => stage.metric('redirector-0', 'signpost_redirector_journal_bytes'), { timeout: 60_000, interval: 500 })
    .toBeLessThan(2 * 67_108_864);
});

function numbers(of: { p50: number; p99: number; max: number }): string {
  return [of.p50, of.p99, of.max].map((one) => one.toFixed(1)).join('/');
}

function mebibytes(bytes: number): string {
  return (bytes / 1_048_576).toFixed(0);
}
