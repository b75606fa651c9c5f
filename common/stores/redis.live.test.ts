import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { TcpProxy } from '#deploy/faults/tcp-proxy.ts';
import { findRedis } from '#deploy/local/redis.ts';
import { type LocalServer, startRedis } from '#deploy/local/servers.ts';
import { skipWithout } from '#testing/skip.ts';
import { isRedisUnavailable, Redis } from './redis.ts';

let folder = '';
let server: LocalServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-redis-'));
  server = await startRedis({ dataDir: folder, port: 0 });
});

afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

test('a script is loaded automatically, and again after the server lost it', async () => {
  const redis = new Redis({ url: server.url, name: 'test' });
  expect(await redis.connect()).toBe(true);
  const add = redis.script("return redis.call('INCRBY', KEYS[1], ARGV[1])");
  expect(await add(['sum'], [2])).toBe(2);
  await redis.commands.script('FLUSH');
  expect(await add(['sum'], [3])).toBe(5);
  expect(await Promise.all([add(['sum'], [1]), redis.commands.get('sum'), add(['sum'], [1])])).toEqual([6, '6', 7]);
  const wrong = redis.script("return redis.call('LPUSH', KEYS[1], 'x')");
  const error = await wrong(['sum'], []).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(Error);
  expect(isRedisUnavailable(error)).toBe(false);
  await redis.close();
});

test('while the server is down, commands fail immediately as unavailable, and work again once it is back', async () => {
  const errors: unknown[] = [];
  const redis = new Redis({ url: server.url, name: 'test', onError: (error) => errors.push(error) });
  await redis.connect();
  const gaps: number[] = [];
  const messages: string[] = [];
  const subscription = await redis.subscribe(
    ['changes'],
    (_channel, message) => messages.push(message),
    () => gaps.push(Date.now()),
  );
  await vi.waitFor(() => expect(gaps).toHaveLength(1));
  server.kill('SIGKILL');
  await server.exited;
  await vi.waitFor(() => expect(redis.isConnected()).toBe(false));
  const before = performance.now();
  const failures = await Promise.allSettled([redis.commands.get('a'), redis.commands.set('b', '1'), redis.isReady()]);
  expect(performance.now() - before).toBeLessThan(200);
  expect(failures.map((failure) => failure.status)).toEqual(['rejected', 'rejected', 'fulfilled']);
  for (const failure of failures) {
    if (failure.status === 'rejected') expect(isRedisUnavailable(failure.reason)).toBe(true);
  }
  server = await startRedis({ dataDir: folder, port: server.port });
  await vi.waitFor(async () => expect(await redis.isReady()).toBe(true), 5_000);
  await vi.waitFor(() => expect(gaps).toHaveLength(2), 5_000);
  await redis.commands.publish('changes', 'again');
  await vi.waitFor(() => expect(messages).toEqual(['again']));
  await subscription.close();
  await redis.close();
});

test('a server that rejects writes because it cannot save counts as unavailable until it can', async (context) => {
  skipWithout(!findRedis().isStandIn, 'redis-server', context);
  const redis = new Redis({ url: server.url, name: 'test' });
  await redis.connect();
  const add = redis.script("return redis.call('INCRBY', KEYS[1], ARGV[1])");
  const save = async () => {
    await redis.commands.bgsave();
    await vi.waitFor(async () => expect(await redis.commands.info()).toContain('rdb_bgsave_in_progress:0'), 5_000);
  };
  // There is a folder in place of the file.
  const obstacle = join(folder, 'dump.rdb');
  rmSync(obstacle, { recursive: true, force: true });
  mkdirSync(join(obstacle, 'inside'), { recursive: true });
  await redis.commands.config('SET', 'save', '3600 1');
  await save();
  const refusals = [() => add(['a'], [1]), () => redis.commands.set('a', 1), () => redis.commands.getset('a', 1)];
  for (const refused of refusals) {
    const error = await refused().catch((reason: unknown) => reason);
    expect(String(error)).toContain('MISCONF');
    expect(isRedisUnavailable(error)).toBe(true);
  }
  rmSync(obstacle, { recursive: true });
  await save();
  expect(await redis.commands.set('a', 1)).toBe('OK');
  await redis.commands.config('SET', 'save', '');
  await redis.close();
});

test('a client that starts before the server reports that, and connects later', async () => {
  await server.stop();
  const redis = new Redis({ url: server.url, name: 'test', onError: () => undefined });
  expect(await redis.connect()).toBe(false);
  server = await startRedis({ dataDir: folder, port: server.port });
  await vi.waitFor(async () => expect(await redis.isReady()).toBe(true), 5_000);
  await redis.close();
});

test('a server that hangs counts as unavailable after the command timeout', async () => {
  const redis = new Redis({ url: server.url, name: 'test', commandTimeoutMs: 100 });
  await redis.connect();
  server.kill('SIGSTOP');
  const error = await redis.commands.get('a').catch((reason: unknown) => reason);
  server.kill('SIGCONT');
  expect(isRedisUnavailable(error)).toBe(true);
  await redis.close();
});

test('a process that was paused for longer than the command timeout still accepts replies that have arrived', async () => {
  const redis = new Redis({ url: server.url, name: 'test', commandTimeoutMs: 100 });
  await redis.connect();
  const answers = Promise.all(Array.from({ length: 100 }, () => redis.commands.ping('here')));
  // The commands are sent at the end of this turn; then the process is blocked while the replies arrive.
  await new Promise<void>((done) => setImmediate(done));
  for (const until = performance.now() + 500; performance.now() < until; );
  expect(new Set(await answers)).toEqual(new Set(['here']));
  await redis.close();
});

test("connections that became silent without being closed are replaced within seconds, including the subscriber's", {
  tags: ['slow'],
}, async () => {
  const proxy = await TcpProxy.start(server.port);
  const redis = new Redis({ url: proxy.through(server.url), name: 'test', commandTimeoutMs: 250 });
  await redis.connect();
  const messages: string[] = [];
  let gaps = 0;
  const subscription = await redis.subscribe(
    ['silence'],
    (_channel, message) => messages.push(message),
    () => gaps++,
  );
  await vi.waitFor(() => expect(gaps).toBe(1));
  proxy.silence();
  await expect(redis.commands.get('a')).rejects.toThrow();
  await proxy.heal();
  await vi.waitFor(async () => expect(await redis.isReady()).toBe(true), 12_000);
  await vi.waitFor(() => expect(gaps).toBe(2), 12_000);
  await redis.commands.publish('silence', 'received');
  await vi.waitFor(() => expect(messages).toEqual(['received']));
  await subscription.close();
  await redis.close();
  proxy.stop();
});
