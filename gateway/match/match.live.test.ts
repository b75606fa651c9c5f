import { afterAll, beforeAll, expect, test } from 'vitest';
import { AddressWriter, addressName } from '#common/address-writer.ts';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { announceChanges } from '#common/links/link-changes.ts';
import { signalsKey } from '#common/links/tap-page.ts';
import { addressKey, SdkEdge } from '#gateway/testing/sdk-edge.ts';

const safari =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';
const iphone = {
  platform: 'ios',
  os_version: '17.5.1',
  device_model: 'iPhone15,2',
  language: 'en_US',
  timezone: 'America/New_York',
};

let edge: SdkEdge;
let clicks: RecentClicks;
beforeAll(async () => {
  edge = await SdkEdge.start();
  clicks = new RecentClicks(edge.redis);
});
afterAll(async () => {
  await edge.stop();
  expect(edge.failures).toEqual([]);
});

interface ClickPlace {
  app_id: string;
  link_id: string;
}

/** A click as ingest would have written it. */
async function click(
  place: ClickPlace,
  more: { click_id?: string; ip?: string; ageMs?: number; query?: string; user_agent?: string } = {},
) {
  const time = Date.now() - (more.ageMs ?? 60_000);
  const click_id = more.click_id ?? newId('clk', time);
  const utm = { utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
  const recent = { click_id, ...place, time, query: more.query ?? '', campaign: '', ...utm, is_bot: false };
  const address = more.ip ?? '198.51.100.7';
  const browser = { user_agent: more.user_agent ?? safari, language: 'en-US,en;q=0.9' };
  await clicks.put([{ click: recent, is_bot: false, near: { address, browser, windowMs: 6 * HOUR_MS } }]);
  return click_id;
}

const addresses = new AddressWriter(addressKey);
const privacyAddress = '198.51.100.57';

async function place(settings = {}) {
  const app = await edge.app(settings);
  const link_id = await edge.link(app.app_id, 'summer', {
    campaign: 'sale',
    title: 'Summer',
    data: { sku: 7 },
    path: '/p/7',
  });
  return { ...app, link_id };
}

test('a named click is matched with certainty, with its link, data and query, once', async () => {
  const app = await place();
  const click_id = await click(app, { query: 'ref=a&ref=b&x=%20y', ip: '203.0.113.1' });
  const first = await edge.post('/sdk/match', app.key, { platform: 'ios', click_id, device_id: 'd1' });
  expect(first.status).toBe(200);
  expect(first.body).toMatchObject({
    matched: true,
    match_type: 'click_id',
    match_guaranteed: true,
    confidence: 1,
    matched_factors: ['click_id'],
    ambiguous: false,
    competing_links: 0,
    click_id,
    link: {
      id: app.link_id,
      short_code: 'summer',
      url: `https://${app.host}/summer`,
      path: '/p/7',
      campaign: 'sale',
    },
    path: '/p/7',
    data: { sku: 7 },
    query_params: { ref: 'a', x: ' y' },
  });
  const again = await edge.post('/sdk/match', app.key, { platform: 'ios', click_id, device_id: 'd1' });
  expect(again.body).toEqual(first.body);
  const other = await edge.post('/sdk/match', app.key, { platform: 'ios', click_id, device_id: 'd2' });
  expect(other.body).toMatchObject({
    matched: false,
    match_type: 'none',
    click_id: null,
    link: null,
    match_guaranteed: false,
  });
});

test('the install referrer and the clipboard name clicks too; another app cannot use them', async () => {
  const app = await place();
  const other = await place();
  const one = await click(app);
  const two = await click(app);
  const referrer = `utm_source%3Dmail%26click_id%3D${one}`;
  const stranger = await edge.post('/sdk/match', other.key, { platform: 'android', install_referrer: referrer });
  expect(stranger.body.matched).toBe(false);
  const android = await edge.post('/sdk/match', app.key, {
    platform: 'android',
    install_referrer: referrer,
    device_id: 'a',
  });
  expect(android.body).toMatchObject({ match_type: 'install_referrer', click_id: one });
  const clipboard_url = `https://${app.host}/summer?click_id=${two}`;
  const pasted = await edge.post('/sdk/match', app.key, { platform: 'ios', clipboard_url, device_id: 'b' });
  expect(pasted.body).toMatchObject({ match_type: 'clipboard', click_id: two });
});

test('a named click that cannot be used never leads to another click, and the answer says why', async () => {
  const app = await place();
  const other = await place();
  const [taken, foreign, old] = [await click(app), await click(other), await click(app, { ageMs: 169 * HOUR_MS })];
  await edge.post('/sdk/match', app.key, { platform: 'ios', click_id: taken, device_id: 'first' });
  // A click that matching by score would find.
  await click(app);
  const reasons: string[] = [];
  for (const click_id of [taken, foreign, old, newId('clk', Date.now() - HOUR_MS)]) {
    const { body } = await edge.post('/sdk/match', app.key, { ...iphone, click_id, device_id: 'd1' });
    expect(body).toMatchObject({ matched: false, match_type: 'none', click_id: null, retry_after_ms: null });
    reasons.push(body.reason);
  }
  expect(reasons).toEqual(['click_claimed', 'click_unknown', 'click_expired', 'click_unknown']);
  const guess = await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd1' });
  expect(guess.body).toMatchObject({ match_type: 'probabilistic', reason: null });
});

test('a click that Redis does not have is matched from ClickHouse', async () => {
  const app = await place();
  const time = Date.now() - 6 * 24 * HOUR_MS;
  const click_id = newId('clk', time);
  const utm = { utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
  const { app_id, link_id } = app;
  const stored = { click_id, app_id, link_id, time, query: 'from=mail', campaign: '', ...utm, is_bot: false };
  const asked: object[] = [];
  edge.archive = async (question) => {
    asked.push(question);
    return question.click_id === click_id ? { click: stored, claimed_by: '' } : 'unknown';
  };
  const ask = (device_id: string) => edge.post('/sdk/match', app.key, { ...iphone, click_id, device_id });
  const first = await ask('d1');
  expect(first.body).toMatchObject({ match_type: 'click_id', click_id, query_params: { from: 'mail' } });
  expect(asked).toEqual([{ organization_id: edge.organization_id, app_id, click_id }]);
  expect((await ask('d1')).body).toEqual(first.body);
  expect((await ask('d2')).body).toMatchObject({ matched: false, reason: 'click_claimed' });
  edge.archive = async () => 'unknown';
});

test('for a click that cannot be looked up, or that ClickHouse may not have yet, the device is asked to retry', async () => {
  const app = await place();
  // A click that matching by score would find.
  await click(app);
  const click_id = newId('clk', Date.now() - HOUR_MS);
  const body = { ...iphone, click_id, device_id: 'd1' };
  edge.archive = async () => 'unavailable';
  for (const path of ['/sdk/match', '/sdk/install']) {
    const refused = await edge.post(path, app.key, body);
    expect([refused.status, refused.headers.get('retry-after') === null], path).toEqual([500, false]);
  }
  // A click that is too old to be matched, whatever ClickHouse would answer.
  const expired = newId('clk', Date.now() - 169 * HOUR_MS);
  const final = await edge.post('/sdk/match', app.key, { ...body, click_id: expired });
  expect(final.body).toMatchObject({ matched: false, reason: 'click_unknown', retry_after_ms: null });
  edge.archive = async () => 'pending';
  const pending = await edge.post('/sdk/match', app.key, body);
  expect(pending.body).toMatchObject({ matched: false, reason: 'click_pending', retry_after_ms: 2_000 });
  expect((await edge.post('/sdk/install', app.key, body)).status).toBe(500);
  edge.archive = async () => 'unknown';
  const unknown = await edge.post('/sdk/match', app.key, body);
  expect(unknown.body).toMatchObject({ matched: false, reason: 'click_unknown', retry_after_ms: null });
});

test('a recent click is waited for in Redis while ClickHouse cannot be queried', async () => {
  const app = await place();
  const click_id = newId('clk', Date.now());
  edge.archive = async () => 'unavailable';
  const waiting = edge.post('/sdk/match', app.key, { ...iphone, click_id, device_id: 'd1' });
  await click(app, { click_id, ip: '203.0.113.1' });
  expect((await waiting).body).toMatchObject({ match_type: 'click_id', click_id });
  edge.archive = async () => 'unknown';
});

test('a click that is too recent to be known is waited for, and the device is asked to retry if it does not arrive', async () => {
  const app = await place();
  await click(app);
  const time = Date.now();
  const click_id = newId('clk', time);
  const ask = () => edge.post('/sdk/match', app.key, { ...iphone, click_id, device_id: 'd1' });
  const install = () => edge.post('/sdk/install', app.key, { ...iphone, click_id, device_id: 'd2' });
  const [pending, refused] = await Promise.all([ask(), install()]);
  expect(pending.body).toMatchObject({
    matched: false,
    match_type: 'none',
    reason: 'click_pending',
    retry_after_ms: 2_000,
  });
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([500, '2']);
  // The click arrives during the wait.
  const waiting = ask();
  await click(app, { click_id, ip: '203.0.113.1' });
  expect((await waiting).body).toMatchObject({ match_type: 'click_id', click_id });
  const late = await install();
  expect(late.body).toMatchObject({ attributed: false, match_type: 'none' });
});

test('the same phone is found by its address and signals, and its click is not matched twice', async () => {
  const app = await place();
  const click_id = await click(app, { query: 'from=ad' });
  const found = await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd1' });
  expect(found.body).toMatchObject({
    matched: true,
    match_type: 'probabilistic',
    match_guaranteed: false,
    confidence: 0.95,
    click_id,
    query_params: { from: 'ad' },
  });
  expect(found.body.matched_factors).toEqual(['ip', 'os_version', 'language', 'age']);
  // The stored answer is complete.
  expect((await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd1' })).body).toEqual(found.body);
  expect((await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd2' })).body).toMatchObject({
    match_type: 'none',
  });
});

test('if two different links are equally likely, neither is matched', async () => {
  const app = await place();
  const second = await edge.link(app.app_id, 'winter');
  await click(app);
  await click({ app_id: app.app_id, link_id: second }, { ageMs: 120_000 });
  const answer = await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd1' });
  expect(answer.body).toMatchObject({
    matched: false,
    match_type: 'none',
    ambiguous: true,
    competing_links: 2,
    link: null,
  });
});

test('a link that opened the app is matched, and recorded as one click', async () => {
  const app = await place();
  const url = `https://${app.host}/summer?x=1`;
  const first = await edge.post('/sdk/match', app.key, { ...iphone, url, device_id: 'd1' });
  expect(first.body).toMatchObject({
    match_type: 'url',
    match_guaranteed: true,
    confidence: 1,
    query_params: { x: '1' },
    path: '/p/7',
  });
  expect((await edge.post('/sdk/match', app.key, { ...iphone, url, device_id: 'd1' })).body).toEqual(first.body);
  const lines = edge
    .lines('click')
    .map((line) => JSON.parse(line))
    .filter(({ app_id }) => app_id === app.app_id);
  expect(lines).toMatchObject([
    { click_id: first.body.click_id, link_id: app.link_id, trigger: 'universal_link', query: 'x=1', campaign: 'sale' },
  ]);
  const stranger = await place();
  const foreign = await edge.post('/sdk/match', stranger.key, { platform: 'ios', url });
  expect(foreign.body.match_type).toBe('none');
});

test('an expired link still opens its path in the app; an archived link does not', async () => {
  const app = await place();
  await edge.link(app.app_id, 'past', { expires_at: new Date(Date.now() - 1000) });
  await edge.link(app.app_id, 'gone', { archived: true });
  const open = (code: string) => edge.post('/sdk/match', app.key, { ...iphone, url: `https://${app.host}/${code}` });
  expect((await open('past')).body).toMatchObject({ match_type: 'url', link: { short_code: 'past' }, path: '/past' });
  expect((await open('gone')).body).toMatchObject({ match_type: 'none', click_id: null });
  expect(edge.lines('click').filter((line) => line.includes(app.app_id))).toHaveLength(1);
});

test('an unusable link never leads to another link by score, and the answer says why', async () => {
  const app = await place();
  const stranger = await place();
  await edge.link(app.app_id, 'gone', { archived: true });
  // A click that matching by score would find.
  await click(app);
  const ask = (more: object) => edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd1', ...more });
  const deleted = `https://${app.host}/deleted`;
  for (const url of [`https://${app.host}/gone`, deleted, `https://${stranger.host}/summer`]) {
    expect((await ask({ url })).body).toMatchObject({ matched: false, match_type: 'none', reason: 'link_unknown' });
  }
  const named = await click(app, { ip: '203.0.113.9' });
  const both = await ask({ url: deleted, click_id: named, device_id: 'd2' });
  expect(both.body).toMatchObject({ match_type: 'click_id', click_id: named });
  const other = await ask({ url: 'https://www.example.com/page' });
  expect(other.body).toMatchObject({ match_type: 'probabilistic', reason: null });
});

test('a published change of a link appears in answers and events within a second', async () => {
  const app = await place();
  const url = `https://${app.host}/summer`;
  const campaign = async () => {
    const answer = await edge.post('/sdk/match', app.key, { platform: 'ios', url });
    return answer.body.link?.campaign;
  };
  expect(await campaign()).toBe('sale');
  await edge.db.execute('UPDATE links SET campaign = $2 WHERE id = $1', [app.link_id, 'winter']);
  await announceChanges(edge.redis, [{ kind: 'link', host: app.host, short_code: 'summer' }]);
  await expect.poll(campaign, { timeout: 1_000, interval: 20 }).toBe('winter');
  await edge.post('/sdk/events', app.key, { name: 'seen', device_id: 'd', link_id: app.link_id });
  expect(edge.events(app.app_id).map((event) => event.campaign)).toEqual(['winter']);
});

test('invalid fields get 400 that names them; unknown fields are ignored', async () => {
  const { key } = await place();
  for (const [body, field] of [
    [{}, 'platform'],
    [{ platform: 'windows' }, 'platform'],
    [{ platform: 'ios', os_version: 17 }, 'os_version'],
    [{ platform: 'ios', screen_width: -1 }, 'screen_width'],
  ] as const) {
    const answer = await edge.post('/sdk/match', key, body);
    expect([answer.status, answer.body.error.details.field]).toEqual([400, field]);
  }
  expect((await edge.post('/sdk/match', key, { platform: 'ios', future_field: { a: 1 } })).status).toBe(200);
});

test('if many devices compete for many clicks at once, no click is matched to two devices', {
  tags: ['slow'],
  timeout: 120_000,
}, async () => {
  const app = await place({ probabilistic_window_hours: 0 });
  const ids = await Promise.all(Array.from({ length: 100 }, () => click(app)));
  // Consecutive devices request the same click, so that ten devices want each click at the same time.
  const ask = (n: number) =>
    edge.post('/sdk/match', app.key, { platform: 'ios', click_id: ids[Math.floor(n / 10)], device_id: `d${n}` });
  const answers = await edge.crowd(1_000, async (n) => {
    const first = await ask(n);
    // On a busy machine, Postgres may be too slow for so many requests; a device then repeats its request.
    return first.status === 500 ? await ask(n) : first;
  });
  const matched = answers.filter(({ body }) => body.matched).map(({ body }) => body.click_id);
  expect(answers.filter(({ status }) => status !== 200).map(({ body }) => body)).toEqual([]);
  expect(new Set(matched).size).toBe(matched.length);
  expect(matched).toHaveLength(100);
});

test.each([
  ['anonymize_ip', true],
  ['no_ip', false],
] as const)(
  'with %s a device at the same address gets its click: %s, and neither Redis nor the journal has the address',
  async (privacy_mode, isMatched) => {
    const app = await place({ privacy_mode });
    const recorded = addresses.ofClick(privacyAddress, privacy_mode, Date.now());
    await click(app, { ip: addressName(recorded, privacy_mode) });
    const from = { 'x-forwarded-for': privacyAddress };
    const url = `https://${app.host}/summer?token=s3cret&a=b`;
    const elsewhere = await edge.post('/sdk/match', app.key, iphone, { 'x-forwarded-for': '198.51.100.58' });
    expect(elsewhere.body.matched).toBe(false);
    const match = await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd1' }, from);
    expect([match.body.matched, match.body.matched_factors?.includes('ip') ?? false]).toEqual([isMatched, isMatched]);
    await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd2', url }, from);
    await edge.post('/sdk/install', app.key, { ...iphone, device_id: 'd1' }, from);
    await edge.post('/sdk/events', app.key, { name: 'open', device_id: 'd1' }, from);
    expect((await edge.post('/sdk/links', app.key, { path: '/a' }, from)).status).toBe(201);
    expect((await edge.post('/sdk/match', 'no key', iphone, from)).status).toBe(401);
    const journal = (['click', 'install', 'event', 'match'] as const).flatMap((kind) => edge.lines(kind)).join('\n');
    expect(journal).toContain('"query":"a=b"');
    expect(journal).not.toMatch(/198\.51\.100\.57|s3cret/);
    expect((await redisTexts()).join('\n')).not.toMatch(/198\.51\.100\.57|s3cret/);
  },
);

/** All keys and values in Redis. */
async function redisTexts(): Promise<string[]> {
  const { commands } = edge.redis;
  const keys = await commands.keys('*');
  expect(keys.filter((key) => /^limit:(general|links|match|events):/.test(key)).length).toBeGreaterThan(3);
  const values = await Promise.all(
    keys.map(async (key) => {
      const type = await commands.type(key);
      if (type === 'zset') return (await commands.zrange(key, '0', '-1')).join();
      return type === 'hash' ? JSON.stringify(await commands.hgetall(key)) : await commands.get(key);
    }),
  );
  return keys.map((key, at) => `${key} ${values[at]}`);
}

test('while Redis is unavailable, a match that needs recent clicks gets 500 with Retry-After', async () => {
  const app = await place();
  await edge.redisServer.kill('SIGKILL');
  try {
    const answer = await edge.post('/sdk/match', app.key, iphone);
    expect([answer.status, answer.body.error.code]).toEqual([500, 'INTERNAL_ERROR']);
    expect(answer.headers.get('retry-after')).not.toBeNull();
  } finally {
    await edge.redisServer.restart();
    await expect.poll(() => edge.redis.isReady(), { timeout: 5_000 }).toBe(true);
  }
});

test('of two equally likely links at one address, the signals of their tap pages decide which one the device clicked', async () => {
  const app = await place();
  const other = { app_id: app.app_id, link_id: await edge.link(app.app_id, 'winter', { path: '/w' }) };
  const [mine, theirs] = [await click(app, { ip: '198.51.100.81' }), await click(other, { ip: '198.51.100.81' })];
  const device = { ...iphone, screen_width: 1179, screen_height: 2556, screen_scale: 3 };
  const ask = async (device_id: string) =>
    (await edge.post('/sdk/match', app.key, { ...device, device_id }, { 'x-forwarded-for': '198.51.100.81' })).body;
  expect(await ask('before')).toMatchObject({ matched: false, ambiguous: true, competing_links: 2 });
  const keep = (id: string, timezone: string, screen: number[]) =>
    edge.redis.commands.set(
      signalsKey(id),
      JSON.stringify({ timezone, screen, pixel_ratio: 3, languages: ['en-US'] }),
      'PX',
      60_000,
    );
  await Promise.all([keep(mine, 'America/New_York', [393, 852]), keep(theirs, 'America/Chicago', [430, 932])]);
  expect(await ask('after')).toMatchObject({
    match_type: 'probabilistic',
    click_id: mine,
    matched_factors: expect.arrayContaining(['timezone', 'screen']),
  });
});

test('a link from an SDK leads only to hosts that the app allows, also by its rules', async () => {
  const app = await edge.app({}, ['example.com']);
  const inside = { url: 'https://example.com/' };
  const outside = { url: 'https://evil.example/' };
  const create = async (rules: object[]) => {
    const { status, body } = await edge.post('/sdk/links', app.key, { path: '/a', rules });
    return [status, body.error?.details.field];
  };
  expect(await create([inside, outside])).toEqual([400, 'rules[1].url']);
  expect(await create([{ variants: [inside, outside].map((one) => ({ ...one, percent: 50 })) }])).toEqual([
    ...[400, 'rules[0].variants[1].url'],
  ]);
  expect(await create([{ ...inside, unknown: 1 }])).toEqual([400, 'rules[0].unknown']);
  expect(await create([inside])).toEqual([201, undefined]);
});

test('an app with sdk_links false cannot create links with its key, but can do everything else', async () => {
  const app = await place({ sdk_links: false });
  const refused = await edge.post('/sdk/links', app.key, { path: '/a' });
  expect([refused.status, refused.body.error]).toMatchObject([403, { details: { reason: 'sdk_links_off' } }]);
  expect((await edge.post('/sdk/match', app.key, iphone)).status).toBe(200);
});

test('an app that is opened by a long link, or installed after a click on one, gets the deep link as Firebase passed it', async () => {
  const app = await edge.app({ firebase_links: { hosts: ['www.example.com'], prefixes: ['/promo'] } });
  const link = 'https://www.example.com/p/7?color=red';
  const long = (given: object, path = '/') =>
    `https://${app.host}${path}?${new URLSearchParams({ ...given }).toString()}`;
  const open = (url: string, device_id: string) =>
    edge.post('/sdk/match', app.key, { platform: 'ios', url, device_id });
  const opened = await open(long({ link, amv: '12', utm_source: 'print', gclid: 'Cj0' }), 'l1');
  expect(opened.body).toMatchObject({
    ...{ matched: true, match_type: 'url', path: '/p/7?color=red', query_params: { gclid: 'Cj0' } },
    data: { firebase: { link, amv: '12' } },
    link: { utm_source: 'print' },
  });
  // The same link with another path and parameter order.
  const again = await open(long({ utm_source: 'print', amv: '12', link }, '/promo/'), 'l2');
  expect(again.body.link).toEqual(opened.body.link);
  const click_id = await click({ app_id: app.app_id, link_id: opened.body.link.id });
  const installed = await edge.post('/sdk/match', app.key, { platform: 'ios', click_id, device_id: 'l3' });
  expect(installed.body).toMatchObject({ matched: true, data: { firebase: { link } }, path: '/p/7?color=red' });
  for (const given of [{ link: 'https://evil.example/' }, { link, ibi: 'com.evil.app' }])
    expect((await open(long(given), 'l4')).body).toMatchObject({ matched: false });
  expect((await open(`https://${app.host}/?x=1`, 'l5')).body).toMatchObject({ matched: false });
  const other = await place();
  const foreign = await edge.post('/sdk/match', other.key, { platform: 'ios', url: long({ link }), device_id: 'l6' });
  expect(foreign.body).toMatchObject({ matched: false, reason: 'link_unknown' });
});
