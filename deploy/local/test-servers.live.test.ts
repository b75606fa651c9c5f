import { expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { clickhouseForTest, natsForTest, postgresForTest } from './test-servers.ts';

test('two databases of one run know nothing of each other', async () => {
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

test('a server restarts on its port, and wiped if asked', async () => {
  const nats = await natsForTest();
  const before = nats.pid();
  await nats.kill('SIGKILL');
  await nats.restart({ isWiped: true });
  expect(nats.pid()).not.toBe(before);
  await nats.stop();
});
