/** What one network may use up of an app's limits, and what an app's public key may store. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Reply, SdkEdge } from '#gateway/testing/sdk-edge.ts';
import { SDK_LINKS_PER_DAY } from './limit-chain.ts';

let edge: SdkEdge;
beforeAll(async () => {
  edge = await SdkEdge.start({ RATE_LIMIT_MATCH: '20', RATE_LIMIT_EVENTS: '10', RATE_LIMIT_LINKS: '3' });
});
afterAll(() => edge.stop());

const bodies = {
  '/sdk/match': { platform: 'ios' },
  '/sdk/events': { name: 'a', device_id: 'd' },
  '/sdk/segment/v1/t': { event: 'a', userId: 'u1' },
  '/sdk/links': { path: '/x' },
};

async function send(path: keyof typeof bodies, key: string, addresses: readonly string[]): Promise<Reply[]> {
  return Promise.all(addresses.map((address) => edge.post(path, key, bodies[path], { 'x-forwarded-for': address })));
}
const many = (count: number, address: (at: number) => string) => Array.from({ length: count }, (_, at) => address(at));
const accepted = (replies: readonly Reply[]) => replies.filter(({ status }) => status < 300).length;

test.each([
  ['/sdk/match', 4],
  ['/sdk/events', 2],
  ['/sdk/segment/v1/t', 2],
] as const)('%s: one /24 gets a fifth of an app’s limit, and leaves the rest to others', async (path, share) => {
  const { key } = await edge.app();
  const flood = await send(
    path,
    key,
    many(100, (at) => `198.51.100.${at}`),
  );
  expect(accepted(flood)).toBe(share);
  const refused = flood.find(({ status }) => status === 429);
  expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
  const others = await send(
    path,
    key,
    many(10, (at) => `203.0.${at}.1`),
  );
  expect(accepted(others)).toBe(Math.min(10, share * 4));
});

test('one /64 gets a fifth of an app’s limit and one /48 three fifths, whichever requests come first', async () => {
  const { key } = await edge.app();
  const house = many(30, (at) => `2001:db8:1:1::${at + 1}`);
  const site = many(40, (at) => `2001:db8:1:${(at % 20) + 2}::1`);
  expect(accepted(await send('/sdk/match', key, house))).toBe(4);
  expect(accepted(await send('/sdk/match', key, site))).toBe(8);
  expect(
    accepted(
      await send(
        '/sdk/match',
        key,
        many(40, (at) => `2001:db8:${at + 2}::1`),
      ),
    ),
  ).toBe(8);
});

test('with a limit that processes grant a part of by themselves, the parts of networks are the same', async () => {
  const limited = await SdkEdge.start({ RATE_LIMIT_EVENTS: '200' });
  try {
    const { key } = await limited.app();
    const ask = (address: string) =>
      limited.post('/sdk/events', key, bodies['/sdk/events'], { 'x-forwarded-for': address });
    const flood = (count: number, address: (at: number) => string) => Promise.all(many(count, address).map(ask));
    expect(accepted(await flood(80, (at) => `198.51.100.${at}`))).toBe(40);
    // Each /64 sends only one request.
    expect(accepted(await flood(150, (at) => `2001:db8:1:${at.toString(16)}::1`))).toBe(120);
    expect(accepted(await flood(60, (at) => `203.${at}.113.1`))).toBe(40);
  } finally {
    await limited.stop();
  }
});

test('the headers of accepted requests describe the app’s limit', async () => {
  const { key } = await edge.app();
  const headers = (reply: Reply | undefined) =>
    ['limit', 'remaining'].map((name) => reply?.headers.get(`x-ratelimit-${name}`));
  const [first] = await send('/sdk/match', key, ['192.0.2.1']);
  const [second] = await send('/sdk/match', key, ['203.0.113.1']);
  expect([headers(first), headers(second)]).toEqual([
    ['20', '19'],
    ['20', '18'],
  ]);
});

test('links: a /56 and a /48 have four and sixteen times the limit of one /64, not one for each', async () => {
  const { key } = await edge.app();
  const flood = await send(
    '/sdk/links',
    key,
    many(60, (at) => `2001:db8:1:${(0x100 * at).toString(16)}::1`),
  );
  expect(accepted(flood)).toBe(48);
  const { key: other } = await edge.app();
  const house = await send(
    '/sdk/links',
    other,
    many(30, (at) => `2001:db8:1:${at.toString(16)}::1`),
  );
  expect(accepted(house)).toBe(12);
});

test('of the links of a day, one network gets at most a fifth', async () => {
  const { app_id, key } = await edge.app();
  expect(accepted(await send('/sdk/links', key, ['192.0.2.1']))).toBe(1);
  const counters = await edge.redis.commands.keys(`limit:links_day:${app_id}:*`);
  expect(counters.length).toBeGreaterThan(0);
  for (const counter of counters) await edge.redis.commands.hset(counter, 'count', SDK_LINKS_PER_DAY / 5);
  expect((await send('/sdk/links', key, ['192.0.2.99', '203.0.113.1'])).map(({ status }) => status)).toEqual([
    429, 201,
  ]);
});

test('while Redis is unavailable, one network gets a fifth as well', async () => {
  const { key } = await edge.app();
  await edge.redisServer.kill('SIGKILL');
  try {
    await send('/sdk/events', key, ['192.0.2.9']);
    expect(
      accepted(
        await send(
          '/sdk/events',
          key,
          many(20, (at) => `198.51.100.${at}`),
        ),
      ),
    ).toBe(2);
    expect(accepted(await send('/sdk/events', key, ['203.0.113.1']))).toBe(1);
  } finally {
    await edge.redisServer.restart();
    await expect.poll(() => edge.redis.isReady(), { timeout: 5_000 }).toBe(true);
  }
});

test('an app gets a number of links per day with its key, by Postgres’ clock; the next day, it gets more', async () => {
  const { app_id, key } = await edge.app();
  await edge.db.execute(`INSERT INTO sdk_links_made VALUES ($1, (now() AT TIME ZONE 'UTC')::date, $2)`, [
    app_id,
    SDK_LINKS_PER_DAY - 1,
  ]);
  const body = { path: '/x', external_id: 'last' };
  expect((await edge.post('/sdk/links', key, body, { 'x-forwarded-for': '192.0.2.1' })).status).toBe(201);
  const [over] = await send('/sdk/links', key, ['192.0.2.2']);
  expect([over?.status, over?.body.error.message]).toEqual([429, expect.stringContaining('POST /links')]);
  expect(Number(over?.headers.get('retry-after'))).toBeGreaterThan(0);
  expect((await edge.post('/sdk/links', key, body, { 'x-forwarded-for': '192.0.2.3' })).status).toBe(200);
  await edge.db.execute('UPDATE sdk_links_made SET day = day - 1 WHERE app_id = $1', [app_id]);
  expect(accepted(await send('/sdk/links', key, ['192.0.2.4']))).toBe(1);
});

test('data of 4,096 bytes and a body of 16 KiB are the most that the key can store with one link', async () => {
  const { key } = await edge.app();
  const data = (bytes: number) => ({ path: '/x', data: { a: 'x'.repeat(bytes - '{"a":""}'.length) } });
  const ask = async (body: object, at: number) =>
    edge.post('/sdk/links', key, body, { 'x-forwarded-for': `192.0.${at}.1` });
  expect((await ask(data(4_096), 1)).status).toBe(201);
  const larger = await ask(data(4_097), 2);
  expect([larger.status, larger.body.error.details.field]).toEqual([400, 'data']);
  const whole = await ask({ path: '/x', rules: [{ url: `https://example.com/${'x'.repeat(17_000)}` }] }, 3);
  expect([whole.status, whole.body.error.details.field]).toEqual([400, 'body']);
});
