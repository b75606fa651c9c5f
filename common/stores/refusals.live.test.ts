/** What a process says when a store refuses it, or has a certificate that it does not know. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { StoreLog, type StoreName } from '#common/process/store-log.ts';
import type { Log } from '#common/process/telemetry.ts';
import { certificate } from '#deploy/local/made-once.ts';
import { findNats } from '#deploy/local/nats.ts';
import { freePort } from '#deploy/local/ports.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { clickhouseForTest, natsForTest, postgresForTest, redisForTest } from '#testing/servers.ts';
import { skipWithout } from '#testing/skip.ts';
import { Nats } from './nats.ts';
import { Postgres } from './postgres.ts';
import { Redis } from './redis.ts';

function storeErrors(store: StoreName) {
  const lines: string[] = [];
  const warn = (fields: { reason?: string }, line: string) => void lines.push(`${line}: ${fields.reason}`);
  const onError = new StoreLog({ warn, debug: () => undefined } as unknown as Log).of(store, 'THE_URL');
  return { lines, onError };
}

function withPassword(text: string, password: string): string {
  const url = new URL(text);
  url.username ||= 'nobody';
  url.password = password;
  return url.href;
}

/** Ends the wait, which would otherwise last until the server accepts. */
function endingAfter(tries: number, onError: (error: unknown) => void): (error: unknown) => void {
  let count = 0;
  return (error) => {
    onError(error);
    if (++count === tries) throw error;
  };
}

const refused = (store: string) => new RegExp(`^${store} refuses the user of THE_URL, its password or a permission: `);

test('a wrong password of Postgres is one warning, and an outage for its callers', async () => {
  const server = await postgresForTest();
  const { lines, onError } = storeErrors('Postgres');
  const url = new URL(withPassword(server.url, 'wrong'));
  url.username = 'nobody';
  const db = new Postgres({ url: url.href, name: 'test', onError });
  onTestFinished(async () => {
    await db.close();
    await server.stop();
  });
  for (let n = 0; n < 3; n++) await expect(db.query('SELECT 1')).rejects.toThrow('Postgres is unavailable');
  expect(lines).toEqual([expect.stringMatching(refused('Postgres'))]);
});

test('a wrong password and a missing one of Redis is a warning', async () => {
  const server = await redisForTest();
  onTestFinished(() => server.stop());
  for (const password of ['wrong', '']) {
    const { lines, onError } = storeErrors('Redis');
    const url = new URL(server.url);
    if (password === '') url.username = '';
    url.password = password;
    const redis = new Redis({ url: url.href, name: 'test', onError });
    await redis.connect();
    await expect.poll(() => lines).toContainEqual(expect.stringMatching(refused('Redis')));
    await redis.close();
    expect(lines.filter((line) => refused('Redis').test(line))).toHaveLength(1);
  }
});

test('a node of a Redis Cluster is named as what cannot be used', async (context) => {
  const program = findProgram(['redis-server']);
  skipWithout(program !== undefined, 'redis-server', context);
  const folder = mkdtempSync(join(tmpdir(), 'signpost-redis-cluster-'));
  const port = await freePort();
  const words = ['--port', String(port), '--bind', '127.0.0.1', '--cluster-enabled', 'yes', '--dir', folder];
  const server = spawn(program ?? '', [...words, '--cluster-port', String(await freePort())], { stdio: 'ignore' });
  const errors: string[] = [];
  const redis = new Redis({
    url: `redis://127.0.0.1:${port}`,
    name: 'test',
    onError: (error) => errors.push(String(error)),
  });
  onTestFinished(async () => {
    await redis.close();
    server.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  });
  await redis.connect();
  await expect.poll(() => redis.isConnected()).toBe(true);
  await expect.poll(() => errors.join()).toMatch(/in cluster mode, which is not supported: use one primary/);
});

test('a wrong password of ClickHouse is one warning', async () => {
  const server = await clickhouseForTest();
  const { lines, onError } = storeErrors('ClickHouse');
  const clickhouse = new ClickHouse({ url: withPassword(server.url, 'wrong'), onError });
  onTestFinished(async () => {
    await clickhouse.close();
    await server.stop();
  });
  for (let n = 0; n < 3; n++) await expect(clickhouse.query('SELECT 1')).rejects.toThrow();
  expect(lines).toEqual([expect.stringMatching(refused('ClickHouse'))]);
});

test('a wrong password of NATS is one warning while the process waits', async () => {
  const server = await natsForTest();
  onTestFinished(() => server.stop());
  const { lines, onError } = storeErrors('NATS');
  const options = { url: withPassword(server.url, 'wrong'), name: 'test', installation: 'test' };
  await expect(Nats.connect({ ...options, onError: endingAfter(3, onError) })).rejects.toThrow(/Authorization/);
  expect(lines).toEqual([expect.stringMatching(refused('NATS'))]);
});

test('a certificate of NATS by an unknown authority is named while the process waits', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signpost-nats-tls-'));
  const port = await freePort();
  const { certFile, keyFile } = await certificate(folder, 'localhost');
  const config = join(folder, 'nats.conf');
  writeFileSync(config, `listen: "127.0.0.1:${port}"\ntls { cert_file: "${certFile}", key_file: "${keyFile}" }\n`);
  const server = spawn(findNats(), ['-c', config], { stdio: 'ignore' });
  onTestFinished(async () => {
    server.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  });
  const { lines, onError } = storeErrors('NATS');
  const options = { url: `tls://127.0.0.1:${port}`, name: 'test', installation: 'test' };
  const ending = (error: unknown) => {
    onError(error);
    // Until the server listens, the reason is another.
    if (!/ECONNREFUSED/.test(String(error))) throw error;
  };
  await expect(Nats.connect({ ...options, onError: ending })).rejects.toThrow(
    /self.signed certificate|unable to verify/i,
  );
  expect(lines).toHaveLength(1);
});
