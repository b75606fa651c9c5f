import { afterAll, beforeAll, expect, test } from 'vitest';
import { DAY_MS, MINUTE_MS } from '#common/durations.ts';
import { postgresForTest, redisForTest, type TestDatabase, type TestServer } from '#testing/servers.ts';
import { get, Rows, TestEdge } from './testing/running-edge.ts';

const host = 'clocks.localhost';
const fallback_url = 'https://example.com/';
const wrongClocks = { 'three years behind': -3 * 365 * DAY_MS, '800 days ahead': 800 * DAY_MS };

let database: TestDatabase;
let redis: TestServer;
let rows: Rows;
const edges: TestEdge[] = [];

async function edgeAhead(aheadMs: number): Promise<TestEdge> {
  const edge = await TestEdge.start(
    { redis: redis.url, postgres: database.url },
    { clock: () => Date.now() + aheadMs },
  );
  edges.push(edge);
  return edge;
}

beforeAll(async () => {
  [database, redis] = await Promise.all([postgresForTest(), redisForTest()]);
  rows = new Rows(database.url);
  await rows.begin();
  const app = await rows.app({ host });
  await rows.link(app, { short_code: 'lasts', fallback_url, expires_at: new Date(Date.now() + DAY_MS) });
  await rows.link(app, { short_code: 'ended', fallback_url, expires_at: new Date(Date.now() - MINUTE_MS) });
  for (const name of Object.keys(wrongClocks))
    await rows.link(app, { short_code: name.replaceAll(' ', '-'), fallback_url });
});

afterAll(async () => {
  for (const edge of edges) await edge.stop();
  await rows.db.close();
  await redis.stop();
  await database.stop();
});

test.each(Object.entries(wrongClocks))(
  'on a redirector whose clock is %s, links end when they should',
  async (_, aheadMs) => {
    const { port } = await edgeAhead(aheadMs);
    expect((await get(port, host, '/lasts')).status).toBe(302);
    expect((await get(port, host, '/ended')).status).toBe(410);
  },
);

test.each(Object.entries(wrongClocks))(
  'what a redirector whose clock is %s keeps in Redis is no newer to others than it is',
  async (name, aheadMs) => {
    const wrong = await edgeAhead(aheadMs);
    const right = await edgeAhead(0);
    const path = `/${name.replaceAll(' ', '-')}`;
    expect((await get(wrong.port, host, path)).status).toBe(302);
    const reads = () => right.cache.links.counters.redis_hits;
    const before = reads();
    expect((await get(right.port, host, path)).status).toBe(302);
    expect(reads()).toBe(before + 1);
    // Its announcements were missed, so nothing that Redis got before counts.
    right.cache.links.setSubscribed(true);
    expect((await get(right.port, host, path)).status).toBe(302);
    expect(reads()).toBe(before + 1);
  },
);
