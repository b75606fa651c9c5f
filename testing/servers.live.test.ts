import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { clickhouseForTest, natsForTest, ownPostgresForTest, postgresForTest } from './servers.ts';

test('two databases of one run are isolated from each other', async () => {
  const [one, other] = await Promise.all([clickhouseForTest(), clickhouseForTest()]);
  const client = new ClickHouse({ url: one.url });
  await client.command('CREATE TABLE mine (n UInt8) ENGINE = MergeTree ORDER BY n');
  await client.close();
  const stranger = new ClickHouse({ url: other.url });
  await expect(stranger.query('SELECT * FROM mine')).rejects.toThrow('mine');
  await stranger.close();
  await Promise.all([one.stop(), other.stop()]);
  const [first, second] = await Promise.all([postgresForTest(), postgresForTest()]);
  expect(first.url).not.toBe(second.url);
  await Promise.all([first.stop(), second.stop()]);
});

test('a server restarts on its port, and without its data if asked to', async () => {
  const nats = await natsForTest();
  const before = nats.pid();
  await nats.kill('SIGKILL');
  await nats.restart({ isWiped: true });
  expect(nats.pid()).not.toBe(before);
  await nats.stop();
});

test('no process of a killed Postgres survives, so none answers or commits any more', { tags: ['slow'] }, async () => {
  const server = await ownPostgresForTest();
  const postgres = new Postgres({ url: server.url, name: 'test', onError: () => undefined });
  const [session] = await postgres.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  // A session that computes does not check whether its server still exists.
  const computing = postgres.query('SELECT count(*) FROM generate_series(1, 1000000000)').catch(() => 'failed');
  const isBusy = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT count%' AND state = 'active'";
  await expect.poll(() => postgres.query(isBusy), { interval: 20 }).toHaveLength(1);
  await server.kill('SIGKILL');
  const status = `/proc/${session?.pid}/status`;
  expect(existsSync(status) && !readFileSync(status, 'utf8').includes('State:\tZ')).toBe(false);
  expect(await computing).toBe('failed');
  await postgres.close();
  await server.stop();
});
