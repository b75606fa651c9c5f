import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { systemClock } from '#common/clock.ts';
import { CountedAddresses } from '#common/counted-addresses.ts';
import { newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { loadConfig } from '#common/process/config.ts';
import { configuredLimits } from '#common/rate-limit.ts';
import type { Queries } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { TcpProxy } from '#deploy/faults/tcp-proxy.ts';
import { KeyCheck } from './key-check.ts';
import { SdkEdge } from './testing/sdk-edge.ts';

const addressesForTest = new CountedAddresses(parseSecretKeys(newSecretKey('test')));
let edge: SdkEdge;
/** Between this gateway and Redis; the code that rotates keys has its own connection. */
let proxy: TcpProxy;
let redis: Redis;
let check: KeyCheck;
let clock = systemClock;
/** Called when Postgres has answered a lookup, and awaited before the answer is returned. */
let lookups = { answered: async () => {} };

beforeAll(async () => {
  edge = await SdkEdge.start();
  proxy = await TcpProxy.start(edge.redisServer.port);
  redis = new Redis({ url: proxy.through(edge.redisServer.url), name: 'cut-off' });
});
beforeEach(async () => {
  await proxy.heal();
  await redis.connect();
  await expect.poll(() => redis.isReady(), { timeout: 5_000 }).toBe(true);
  lookups = { answered: async () => {} };
  clock = systemClock;
  const db: Queries = {
    execute: edge.db.execute,
    query: async <Row extends object>(sql: string, values?: readonly unknown[], name?: string) => {
      const rows = await edge.db.query<Row>(sql, values, name);
      await lookups.answered();
      return rows;
    },
  };
  const limits = { ...configuredLimits(loadConfig([], {})), general: 20, events: 100_000 };
  check = new KeyCheck({ redis, db, keys: edge.keys, limits, addresses: addressesForTest, clock: () => clock() });
});
afterAll(async () => {
  await redis.close();
  proxy.stop();
  await edge.stop();
});

async function verdict(key: string): Promise<string> {
  const answer = await check.check(key, 'events', '192.0.2.1');
  return 'rejection' in answer ? answer.rejection.code : answer.app.app_id;
}

test('a key rotated while only this gateway has lost Redis is rejected immediately', async () => {
  const { app_id, key } = await edge.app();
  expect(await verdict(key)).toBe(app_id);
  proxy.refuse();
  await expect.poll(() => redis.isConnected()).toBe(false);
  let old = key;
  for (let round = 0; round < 8; round++) {
    expect(await verdict(old)).toBe(app_id);
    const next = await edge.rotate(app_id);
    expect([await verdict(old), await verdict(next)]).toEqual(['UNAUTHORIZED', app_id]);
    old = next;
  }
});

test('a request after a rotation does not use the result of a lookup that began before the rotation', async () => {
  const { app_id, key } = await edge.app();
  proxy.refuse();
  await expect.poll(() => redis.isConnected()).toBe(false);
  let release = () => {};
  const held = new Promise<void>((done) => {
    release = done;
  });
  let reads = 0;
  lookups.answered = () => (++reads === 1 ? held : Promise.resolve());
  const early = verdict(key);
  await expect.poll(() => reads).toBe(1);
  await edge.rotate(app_id);
  const late = Array.from({ length: 50 }, () => verdict(key));
  release();
  expect(await early).toBe(app_id);
  expect(new Set(await Promise.all(late))).toEqual(new Set(['UNAUTHORIZED']));
  expect(reads).toBe(2);
});

test('without Redis, a known key does not count towards its address’s limit of unknown keys; unknown keys do', async () => {
  const { app_id, key } = await edge.app();
  proxy.refuse();
  await expect.poll(() => redis.isConnected()).toBe(false);
  for (let n = 0; n < 100; n++) expect(await verdict(key)).toBe(app_id);
  const { newApiKey } = await import('#common/api-key.ts');
  const guesses: string[] = [];
  for (let n = 0; n < 25; n++) guesses.push(await verdict(newApiKey()));
  expect(new Set(guesses)).toEqual(new Set(['UNAUTHORIZED', 'RATE_LIMITED']));
  expect(guesses.at(-1)).toBe('RATE_LIMITED');
});

test('after one request waited for Redis in vain, requests within the next second do not wait for it', async () => {
  const { app_id, key } = await edge.app();
  const nowMs = Date.now();
  // Fixes the clock, so that on a slow machine too the next requests are within that second.
  clock = () => nowMs;
  proxy.silence();
  expect(await verdict(key)).toBe(app_id);
  for (let n = 0; n < 20; n++) expect(await verdict(key)).toBe(app_id);
  expect(check.counters.redis_failures).toBe(1);
  proxy.reset();
});
