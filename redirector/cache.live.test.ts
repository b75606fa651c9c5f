import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { ownPostgresForTest, redisForTest, type TestServer } from '#testing/servers.ts';
import { Rows, TestEdge, until } from './testing/running-edge.ts';

const host = 'myapp.localhost';
const first = 'https://example.com/first';
const second = 'https://example.com/second';

let postgres: TestServer;
let redis: TestServer;
let rows: Rows;
let folder: string;
let edges: TestEdge[];
let appId: string;
let linkId: string;

beforeAll(async () => {
  postgres = await ownPostgresForTest();
  await migratePostgres({ url: postgres.url });
});
afterAll(() => postgres.stop());

beforeEach(async () => {
  redis = await redisForTest();
  rows = new Rows(postgres.url);
  await rows.db.execute('TRUNCATE organizations CASCADE');
  await rows.begin();
  appId = await rows.app({ host });
  linkId = await rows.link(appId, { short_code: 'summer', fallback_url: first });
  folder = mkdtempSync(join(tmpdir(), 'signpost-disk-cache-'));
  edges = [];
});

afterEach(async () => {
  for (const edge of edges) await edge.stop();
  await rows.db.close();
  await redis.stop();
  await postgres.revive();
  rmSync(folder, { recursive: true, force: true });
});

async function start(): Promise<TestEdge> {
  const edge = await TestEdge.start({ redis: redis.url, postgres: postgres.url }, { diskCacheFolder: folder });
  edges.push(edge);
  await until(() => edge.cache.isSubscribed, 'changes are received');
  return edge;
}

const location = async (edge: TestEdge, path = '/summer') => {
  const reply = await edge.get(host, path);
  return reply.headers.location ?? reply.status;
};

test('a change, a deletion, a new link and a deleted app reach every process within a second', async () => {
  const all = [await start(), await start()];
  const [one] = all;
  const everywhere = async (path: string, expected: string | number) => {
    for (const edge of all)
      await until(async () => (await location(edge, path)) === expected, `${path} is ${expected}`, 1_000);
  };
  await everywhere('/summer', first);
  await everywhere('/winter', 404);

  await rows.set('links', linkId, 'fallback_url', second);
  await one?.announce({ kind: 'link', host, short_code: 'summer' });
  await everywhere('/summer', second);

  await rows.link(appId, { short_code: 'winter', fallback_url: first });
  await one?.announce({ kind: 'link', host, short_code: 'winter' });
  await everywhere('/winter', first);

  await rows.set('links', linkId, 'deleted_at', new Date());
  await one?.announce({ kind: 'link', host, short_code: 'summer' });
  await everywhere('/summer', 404);

  await rows.set('apps', appId, 'deleted_at', new Date());
  await one?.announce({ kind: 'app', host });
  await everywhere('/winter', 404);
});

test('a host that moves from one app to another serves the links of its current app', async () => {
  const all = [await start(), await start()];
  for (const edge of all) expect(await location(edge)).toBe(first);
  const otherId = await rows.app({ host: 'my_other.localhost' });
  await rows.link(otherId, { short_code: 'summer', fallback_url: second });
  expect((await all[0]?.get('my_other.localhost', '/summer'))?.headers.location).toBe(second);
  await rows.set('apps', appId, 'host', 'left.localhost');
  await rows.set('apps', otherId, 'host', host);
  for (const moved of [host, 'left.localhost', 'my_other.localhost'])
    await all[0]?.announce({ kind: 'app', host: moved });
  for (const edge of [...all, await start()]) {
    await until(async () => (await location(edge)) === second, 'the host leads to the links of its app', 2_000);
  }
});

test('a slow reader can’t put an old snapshot into Redis after a change', async () => {
  const edge = await start();
  const key = 'link:2:myapp.localhost/summer';
  await edge.announce({ kind: 'link', host, short_code: 'summer' });
  // The late write of a reader that began before the change:
  const late = await edge.redis.commands.set(key, '1 {"old":true}', 'PX', 60_000, 'NX');
  expect(late).toBeNull();
  expect(await location(edge)).toBe(first);
  expect(await edge.redis.commands.get(key)).toBe('!');
});

test('a change made while Redis was unavailable is applied when it is back', { tags: ['slow'] }, async () => {
  const edge = await start();
  expect(await location(edge)).toBe(first);
  await redis.kill('SIGKILL');
  await rows.set('links', linkId, 'fallback_url', second);
  await until(async () => (await location(edge)) === second, 'without Redis entries are trusted for a second', 4_000);
  await rows.set('links', linkId, 'fallback_url', first);
  await redis.restart();
  await until(() => edge.cache.isSubscribed, 'changes are received again');
  await until(async () => (await location(edge)) === first, 'everything is looked up again', 1_000);
});

test('a served link redirects while Redis and Postgres are unavailable, even from other and new processes', async () => {
  const [one, other] = [await start(), await start()];
  expect(await location(one)).toBe(first);
  await one.diskCache.close();
  await Promise.all([redis.kill('SIGKILL'), postgres.kill('SIGKILL')]);
  for (let turn = 0; turn < 3; turn++) {
    expect(await location(one)).toBe(first);
    expect(await location(other)).toBe(first);
  }
  const late = await TestEdge.start({ redis: redis.url, postgres: postgres.url }, { diskCacheFolder: folder });
  edges.push(late);
  expect(await location(late)).toBe(first);
  const unknown = await one.get(host, '/never-seen');
  expect([unknown.status, unknown.headers['retry-after']]).toEqual([503, '2']);
  expect(one.clicks().length).toBe(4);
});

test('a long link is answered while the stores are unavailable, and with a click if it was visited before', {
  tags: ['slow'],
}, async () => {
  await rows.set('apps', appId, 'settings', { privacy_mode: 'full_ip', firebase_links: { hosts: ['example.com'] } });
  const edge = await start();
  const browser = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36' };
  const visit = async (destination: string) =>
    (await edge.get(host, `/?link=${encodeURIComponent(destination)}`, browser)).headers.location;
  expect(await visit(first)).toBe(first);
  await Promise.all([redis.kill('SIGKILL'), postgres.kill('SIGKILL')]);
  expect([await visit(first), await visit(second)]).toEqual([first, second]);
  expect(edge.clicks()).toHaveLength(2);
  expect(edge.edge.counters.answers.long_link_unrecorded).toBe(1);
  // The visit was not queued anywhere: the first visit after the outage creates the link.
  await postgres.restart();
  await until(async () => {
    await visit(second);
    return edge.clicks().length === 3;
  }, 'the visit is a click');
});

test('a changed link redirects to its new destination while every store is unavailable, even if not visited since', async () => {
  const edge = await start();
  expect(await location(edge)).toBe(first);
  const looked = edge.cache.links.counters.postgres_hits;
  await rows.set('links', linkId, 'fallback_url', second);
  await edge.announce({ kind: 'link', host, short_code: 'summer' });
  await until(() => edge.cache.links.counters.postgres_hits > looked, 'the change is looked up without a visit', 1_000);
  await Promise.all([redis.kill('SIGKILL'), postgres.kill('SIGKILL')]);
  expect(await location(edge)).toBe(second);
});

test('a deleted link is not served in an outage, even if an earlier process had served it', async () => {
  const before = await start();
  expect(await location(before)).toBe(first);
  edges = [];
  await before.stop();
  const edge = await start();
  await rows.set('links', linkId, 'deleted_at', new Date());
  await edge.announce({ kind: 'link', host, short_code: 'summer' });
  await until(() => edge.diskCache.counters.lines > 0, 'the change is in the disk cache', 1_000);
  await Promise.all([redis.kill('SIGKILL'), postgres.kill('SIGKILL')]);
  expect(await location(edge)).toBe(503);
});

test('hanging stores delay answers only briefly: cached links are served after a moment, then immediately', {
  tags: ['slow'],
}, async () => {
  const edge = await start();
  expect(await location(edge)).toBe(first);
  await Promise.all([redis.kill('SIGSTOP'), postgres.kill('SIGSTOP')]);
  await until(() => !edge.cache.isSubscribed, 'the silence is noticed');
  const times: number[] = [];
  const { counters } = edge.cache.links;
  const before = counters.queries;
  while (counters.queries < before + 3) {
    const began = performance.now();
    expect(await location(edge)).toBe(first);
    times.push(performance.now() - began);
  }
  expect(Math.max(...times)).toBeLessThan(900);
  // A request that waits for the stores takes 250 ms.
  expect(times.filter((ms) => ms > 200).length).toBeLessThan(5);
  await Promise.all([redis.kill('SIGCONT'), postgres.kill('SIGCONT')]);
  await until(() => edge.cache.isSubscribed, 'changes are received again');
});

test('a scan of unknown codes queries Postgres a bounded number of times and always gets 404', async () => {
  const edge = await start();
  const before = edge.cache.links.counters.queries;
  const began = Date.now();
  for (let round = 0; round < 10; round++) {
    const replies = await Promise.all(Array.from({ length: 100 }, (_, n) => edge.get(host, `/scan-${round}-${n}`)));
    expect(new Set(replies.map((reply) => reply.status))).toEqual(new Set([404]));
  }
  const seconds = (Date.now() - began) / 1000;
  expect(edge.cache.links.counters.queries - before).toBeLessThan(100 * seconds + 10);
  const known = edge.cache.links.counters.queries;
  expect(await location(edge, '/scan-9-99')).toBe(404);
  expect(edge.cache.links.counters.queries).toBe(known);
});

test('many visits of one unknown key cause a single lookup', async () => {
  const edge = await start();
  const before = edge.cache.links.counters.postgres_hits;
  const replies = await Promise.all(Array.from({ length: 50 }, () => edge.get(host, '/summer')));
  expect(new Set(replies.map((reply) => reply.headers.location))).toEqual(new Set([first]));
  expect(edge.cache.links.counters.postgres_hits - before).toBe(1);
});

test('a redirector starts while every store is unavailable, and serves links once they are available', {
  tags: ['slow'],
}, async () => {
  await Promise.all([redis.kill('SIGKILL'), postgres.kill('SIGKILL')]);
  const edge = await TestEdge.start({ redis: redis.url, postgres: postgres.url });
  edges.push(edge);
  expect(await location(edge)).toBe(503);
  await Promise.all([redis.restart(), postgres.restart()]);
  await until(async () => (await location(edge)) === first, 'the link is found', 8_000);
});
