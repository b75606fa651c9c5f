import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { Postgres } from '#common/stores/postgres.ts';
import { HoldingProxy } from './testing/holding-proxy.ts';
import { PipelineHarness } from './testing/pipeline-harness.ts';

let way: PipelineHarness;
let postgres: Postgres;
beforeAll(async () => {
  way = await PipelineHarness.start({ hasOwnClickhouse: true });
  postgres = new Postgres({ url: way.postgres.url, name: 'test', connectionsMax: 2 });
});
afterAll(async () => {
  await postgres.close();
  await way.stop();
});
afterEach(() => way.stopIngests());

const patience = { timeout: 45_000, interval: 250 };
const long = 90_000;
const ingestTables = ['lease', 'checkpoint', 'mark', 'batch', 'last_batch'];

/**
 * Saves the state of Postgres, for a simulated restore or failover to a replica that lags.
 * @returns how to restore it.
 */
async function save(): Promise<() => Promise<void>> {
  for (const table of ingestTables) {
    await postgres.execute(`DROP TABLE IF EXISTS saved_${table}`);
    await postgres.execute(`CREATE TABLE saved_${table} AS TABLE ingest.${table}`);
  }
  return async () => {
    for (const table of ingestTables) {
      await postgres.execute(`DELETE FROM ingest.${table}`);
      await postgres.execute(`INSERT INTO ingest.${table} SELECT * FROM saved_${table}`);
    }
  };
}

test('a delayed insert of a dead owner changes nothing after its successor has stored the batch', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const proxy = await HoldingProxy.start(way.clickhouse.url);
  const first = way.ingest('', 'ingest-a', 1, `${proxy.url}/test`);
  await way.keep(50);
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  proxy.isHolding = true;
  await way.keep(50);
  await expect.poll(() => proxy.held, patience).toBe(1);
  first.process.kill('SIGKILL');
  await first.exited;
  // After this, ClickHouse has no record of the queries that the dead owner sent.
  await way.clickhouse.kill('SIGKILL');
  await way.clickhouse.restart();
  const second = way.ingest('', 'ingest-b', 1);
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  const answers = await proxy.release();
  await way.keep(50);
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  expect(answers.join()).toContain('fenced');
  await second.stop();
  await proxy.stop();
});

test('after Postgres is restored to an earlier state, records stored since then are counted once', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const first = way.ingest();
  await way.keep(200);
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  await first.stop();
  const restore = await save();
  const second = way.ingest();
  await way.keep(150);
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  await second.stop();
  await restore();
  const third = way.ingest();
  await way.keep(100);
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  await expect.poll(() => way.publisher.messagesInFlight, patience).toBe(0);
  await third.stop();
  expect(third.output).toContain('Postgres has lost commits');
  expect(await way.figures()).toEqual(way.wanted);
});
