import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { systemClock } from '#common/clock.ts';
import { LinkCache } from '#common/links/link-cache.ts';
import { Redis } from '#common/stores/redis.ts';
import { TcpProxy } from '#deploy/faults/tcp-proxy.ts';
import { type ApiForTest, apiForTest, type Member } from './testing/running-api.ts';

let api: ApiForTest;
let owner: Member;
/** Proxies the API's connection to Redis; the redirector's cache has its own connection. */
let proxy: TcpProxy;
let redis: Redis;
let cache: LinkCache;
let link: { id: string; short_code: string };
let host: string;

beforeAll(async () => {
  api = await apiForTest({}, async (server) => {
    proxy = await TcpProxy.start(server.port);
    return proxy.through(server.url);
  });
  owner = await api.member();
  host = (await owner.call('POST', '/apps', { name: 'Outbox', fallback_url: 'https://a.example/' })).body.host;
  link = (await owner.call('POST', '/links', { path: '/x', fallback_url: 'https://a.example/0' })).body;
  redis = new Redis({ url: api.redisServer.url, name: 'redirector-test' });
  await redis.connect();
  cache = new LinkCache({ redis, db: api.db, clock: systemClock, entriesMax: 100, bytesMax: 1e6 });
  await cache.start();
  await vi.waitFor(() => expect(cache.isSubscribed).toBe(true), 5_000);
});
afterAll(async () => {
  await cache.stop();
  await redis.close();
  await api.stop();
  proxy.stop();
});

const served = async () => (await cache.find(host, link.short_code))?.link.fallback_url;
const noted = () => api.db.query('SELECT kind, host, short_code FROM outbox');
const patience = { timeout: 10_000, interval: 10 };
const second = { timeout: 1_000, interval: 10 };

async function lead(to: string): Promise<void> {
  const reply = await owner.call('PATCH', `/links/${link.id}`, { fallback_url: to });
  expect(reply.status).toBe(200);
}

test('a change is announced before the response is sent, and its outbox row is deleted', async () => {
  expect(await served()).toBe('https://a.example/0');
  await lead('https://a.example/1');
  expect(await noted()).toEqual([]);
  await expect.poll(served, second).toBe('https://a.example/1');
});

test('a change made while only the API had lost Redis is served within a second after it reconnects', async () => {
  await expect.poll(served, second).toBe('https://a.example/1');
  proxy.refuse();
  await expect.poll(() => api.redis.isConnected(), patience).toBe(false);
  await lead('https://a.example/2');
  expect(await noted()).toEqual([{ kind: 'link', host, short_code: link.short_code }]);
  expect([cache.isSubscribed, await served()]).toEqual([true, 'https://a.example/1']);
  await proxy.heal();
  await expect.poll(() => api.redis.isConnected(), patience).toBe(true);
  await expect.poll(served, second).toBe('https://a.example/2');
  await expect.poll(noted, second).toEqual([]);
});

test('a change made while Redis was stopped is served within a second after it returns', async () => {
  await api.redisServer.kill('SIGKILL');
  await expect.poll(() => api.redis.isConnected(), patience).toBe(false);
  await lead('https://a.example/3');
  await owner.call('DELETE', `/links/${(await owner.call('POST', '/links', { path: '/y' })).body.id}`);
  expect(await noted()).toHaveLength(2);
  await api.redisServer.restart();
  await expect.poll(() => api.redis.isConnected() && cache.isSubscribed, patience).toBe(true);
  await expect.poll(served, second).toBe('https://a.example/3');
  await expect.poll(noted, second).toEqual([]);
});

test('a committed change of a process that died before announcing it is announced by another process', async () => {
  await expect.poll(served, second).toBe('https://a.example/3');
  await api.db.execute('UPDATE links SET fallback_url = $2 WHERE id = $1', [link.id, 'https://a.example/4']);
  await expect.poll(served, { timeout: 2_000, interval: 10 }).toBe('https://a.example/4');
});

test('a new host is announced under both the old and the new name; an update without changes is not announced', async () => {
  proxy.refuse();
  await expect.poll(() => api.redis.isConnected(), patience).toBe(false);
  await api.db.execute('UPDATE apps SET host = $2 WHERE host = $1', [host, 'new.example']);
  await api.db.execute('UPDATE links SET archived = archived');
  const both = [host, 'new.example'].map((name) => ({ kind: 'app', host: name, short_code: '' }));
  expect((await noted()).sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)))).toEqual(
    both.sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b))),
  );
  await proxy.heal();
  await expect.poll(noted, patience).toEqual([]);
});

test('while Redis is unavailable, changes older than any cache entry are dropped and the rest stay queued', async () => {
  proxy.refuse();
  await expect.poll(() => api.redis.isConnected(), patience).toBe(false);
  const note = `INSERT INTO outbox (kind, host, short_code, changed_at) VALUES ('app', $1, '', now() - $2::interval)`;
  await api.db.execute(note, ['old.example', '1 day']);
  await api.db.execute(note, ['young.example', '9 minutes']);
  await expect.poll(noted, patience).toEqual([{ kind: 'app', host: 'young.example', short_code: '' }]);
  await proxy.heal();
  await expect.poll(noted, patience).toEqual([]);
});
