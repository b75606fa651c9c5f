import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { Redis } from '#common/stores/redis.ts';
import { redisForTest, type TestServer } from '#testing/servers.ts';
import type { ClickToPut } from './recent-clicks.ts';
import { KEPT_BY_ID_MS, PER_ADDRESS_MAX, RecentClicks } from './recent-clicks.ts';

let server: TestServer;
let redis: Redis;
let clicks: RecentClicks;

beforeAll(async () => {
  server = await redisForTest();
  redis = new Redis({ url: server.url, name: 'test' });
  await redis.connect();
  clicks = new RecentClicks(redis);
});
beforeEach(async () => {
  await redis.commands.flushall();
});
afterAll(async () => {
  await redis.close();
  await server.stop();
});

const [app_id, link_id] = [newId('app', 1), newId('lnk', 1)];
const browser = {
  user_agent:
    'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
  language: 'en-US,en;q=0.9',
};

function click(time: number, more: { address?: string; query?: string; isOld?: boolean } = {}): ClickToPut {
  const { address = 'hash', query = '', isOld = false } = more;
  const utm = { utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
  return {
    click: { click_id: newId('clk', time), app_id, link_id, time, query, campaign: 'c', ...utm },
    is_bot: false,
    isOld,
    near: address === '' ? null : { address, browser, windowMs: 6 * HOUR_MS },
  };
}

async function everything(): Promise<[string, string | null][]> {
  const keys = (await redis.commands.keys('*')).sort();
  return await Promise.all(
    keys.map(async (key): Promise<[string, string | null]> => [key, await redis.commands.get(key)]),
  );
}

const idsNear = async (address = 'hash') =>
  (await clicks.gather(app_id, '', address, [])).near.map(({ click_id }) => click_id);

test('clicks of one millisecond share a key, and each is found by its id and at its address', async () => {
  const all = [1, 1, 2].map((ms) => click(1_700_000_000_000 + ms, { query: `n=${ms}` }));
  await clicks.put(all);
  const ids = all.map(({ click: { click_id } }) => click_id);
  const found = await clicks.byIds([...ids, newId('clk', 1_700_000_000_001)]);
  expect(found.map((one) => one?.click_id)).toEqual([...ids, undefined]);
  expect(found[2]).toMatchObject({ app_id, link_id, query: 'n=2', campaign: 'c', is_bot: false });
  expect((await idsNear()).sort()).toEqual(ids.toSorted());
  const { named } = await clicks.gather(app_id, '', '', ids);
  expect(named.map((one) => one?.click.click_id)).toEqual(ids);
  expect((await redis.commands.keys('clicks:*')).length).toBe(2);
});

test('storing the same clicks again changes nothing, however they are grouped', async () => {
  const all = Array.from({ length: 6 }, (_, n) => click(1_700_000_000_000 + (n % 2)));
  await clicks.put(all.slice(0, 4));
  await clicks.put(all.slice(2));
  const before = await everything();
  await clicks.put(all.slice(1, 3));
  await clicks.put(all.toReversed());
  expect(await everything()).toEqual(before);
});

test('every key expires: by id after some minutes, at an address with the window', async () => {
  await clicks.put([click(Date.now()), click(Date.now(), { address: 'other' })]);
  const keys = await redis.commands.keys('*');
  const lives = await Promise.all(
    keys.map(async (key) => [key.split(':')[0], await redis.commands.pttl(key)] as const),
  );
  expect(lives.length).toBeGreaterThanOrEqual(3);
  for (const [kind, ttlMs] of lives) {
    const most = kind === 'near' ? 6 * HOUR_MS : KEPT_BY_ID_MS;
    expect(ttlMs, kind).toBeGreaterThan(most - 60_000);
    expect(ttlMs, kind).toBeLessThanOrEqual(most);
  }
});

test('an old click is not stored by its id, and one without an address only by its id', async () => {
  const [old, nowhere] = [click(1, { isOld: true }), click(2, { address: '' })];
  await clicks.put([old, nowhere]);
  const found = await clicks.byIds([old.click.click_id, nowhere.click.click_id]);
  expect(found.map((one) => one?.click_id)).toEqual([undefined, nowhere.click.click_id]);
  expect(await idsNear()).toEqual([old.click.click_id]);
});

test('an address keeps its newest clicks, whatever their order, and its key stays within its maximum size', async () => {
  const query = 'q'.repeat(150);
  const all = Array.from({ length: 1_000 }, (_, n) => click(1_700_000_000_000 + n, { query, isOld: true }));
  const order = all.map((_, n) => all[(n * 617) % all.length] ?? click(0));
  for (let from = 0; from < order.length; from += 37) await clicks.put(order.slice(from, from + 37));
  const near = await idsNear();
  const newest = all.slice(-near.length).map(({ click: { click_id } }) => click_id);
  expect(near).toEqual(newest.reverse());
  expect(near.length).toBeGreaterThan(50);
  expect(near.length).toBeLessThanOrEqual(PER_ADDRESS_MAX);
  expect(await redis.commands.strlen(`near:${app_id}:hash`)).toBeLessThan(25_000);
});
