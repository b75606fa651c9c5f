/** Ingest as a separate process, started without any of the servers that it needs. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { childEnvironment } from '#common/process/config.ts';
import { Redis } from '#common/stores/redis.ts';
import { freePort } from '#deploy/local/ports.ts';
import { redisForTest } from '#testing/servers.ts';
import { PipelineHarness, testClick } from './testing/pipeline-harness.ts';

test('while NATS is unreachable, ingest stays up, reports what it waits for, and stops when asked', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ingest-start-'));
  const [port, unused] = [await freePort(), await freePort()];
  const child = spawn(process.execPath, ['dist/ingest/main.js'], {
    env: childEnvironment({
      DATA_DIR: folder,
      METRICS_PORT: String(port),
      NATS_URL: `nats://127.0.0.1:${unused}`,
      DATABASE_URL: `postgres://127.0.0.1:${unused}/none`,
      CLICKHOUSE_URL: `http://127.0.0.1:${unused}/none`,
    }),
    stdio: 'ignore',
  });
  const exited = new Promise<number | null>((done) => child.once('exit', done));
  const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
  await expect.poll(async () => (await ask('/healthz'))?.status, { timeout: 10_000 }).toBe(200);
  const ready = await ask('/readyz');
  expect([ready?.status, await ready?.json()]).toMatchObject([503, { checks: { nats: 'not connected' } }]);
  child.kill('SIGTERM');
  expect(await exited).toBe(0);
  rmSync(folder, { recursive: true });
});

test('an ingest that starts without ClickHouse copies clicks to Redis, and stores them once ClickHouse has its schema', {
  timeout: 90_000,
}, async () => {
  const way = await PipelineHarness.start({ hasOwnClickhouse: true });
  const redisServer = await redisForTest();
  const redis = new Redis({ url: redisServer.url, name: 'test' });
  await redis.connect();
  await way.client.command('CREATE TABLE migrations_away AS migrations');
  await way.client.command('EXCHANGE TABLES migrations AND migrations_away');
  await way.clickhouse.kill('SIGKILL');
  const port = await freePort();
  const child = spawn(process.execPath, ['dist/ingest/main.js'], {
    env: childEnvironment({
      DATA_DIR: way.folder,
      METRICS_PORT: String(port),
      NATS_URL: way.nats.url,
      INGEST_DATABASE_URL: way.postgres.urlAs('signpost_ingest'),
      CLICKHOUSE_URL: way.clickhouseUrl,
      REDIS_URL: redisServer.url,
    }),
    stdio: 'ignore',
  });
  const exited = new Promise<number | null>((done) => child.once('exit', done));
  onTestFinished(async () => {
    child.kill('SIGTERM');
    await exited;
    await redis.close();
    await Promise.all([way.stop(), redisServer.stop()]);
  });
  const line = testClick(Date.now());
  const { click_id } = JSON.parse(line);
  await new Promise<void>((committed, fail) => {
    const waiter = { committed, refused: () => fail(new Error('refused')) };
    way.journal.append(way.journal.lane('click', 0), line, waiter);
  });
  const clicks = new RecentClicks(redis);
  const patience = { timeout: 30_000, interval: 100 };
  await expect.poll(async () => (await clicks.byIds([click_id]))[0]?.click_id, patience).toBe(click_id);
  await way.clickhouse.restart();
  const schema = async () => {
    const ready = await fetch(`http://127.0.0.1:${port}/readyz`);
    return ((await ready.json()) as { checks: { schema: unknown } }).checks.schema;
  };
  await expect.poll(schema, patience).toContain('ClickHouse lacks migration');
  const rows = async () =>
    (await way.client.query<{ n: number }>('SELECT toUInt32(count()) AS n FROM clicks').catch(() => []))[0]?.n;
  expect(await rows()).toBe(0);
  await way.client.command('EXCHANGE TABLES migrations AND migrations_away');
  await expect.poll(rows, patience).toBe(1);
});
