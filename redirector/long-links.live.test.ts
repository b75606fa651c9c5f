import { afterAll, beforeAll, expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { type LinkedAppRow, linkedAppColumns, linkedAppOf } from '#common/links/link-snapshot.ts';
import { readLongLink } from '#common/links/long-link.ts';
import { LongLinks, longLinkLimits } from '#common/links/long-links.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest, redisForTest, type TestPostgres, type TestServer } from '#testing/servers.ts';
import { Rows, TestEdge } from './testing/running-edge.ts';

const host = 'go.localhost';
const page = 'https://www.example.com/p/7?color=red';
const iphone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1';
const ipad = iphone.replace('iPhone; CPU iPhone OS', 'iPad; CPU OS');
const android =
  'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36';
const desktop = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36';
const firebase_links = { hosts: ['www.example.com', 'm.example.com'], prefixes: ['/promo'] };
const ids = {
  ios: { bundle_id: 'com.example.shop', team_id: 'TEAM123456', app_store_id: '123456789' },
  android: { package_name: 'com.example.shop' },
};

let database: TestPostgres;
let redis: TestServer;
let rows: Rows;
let edges: TestEdge[];
let appId: string;

/** Redirectors with the privileges of their own Postgres role. */
beforeAll(async () => {
  [database, redis] = await Promise.all([postgresForTest(), redisForTest()]);
  rows = new Rows(database.url);
  await rows.begin();
  const settings = { privacy_mode: 'full_ip', firebase_links };
  appId = await rows.app({ host, ...ids, fallback_url: 'https://www.example.com/home', settings });
  const urls = { redis: redis.url, postgres: database.urlAs('signpost_redirector') };
  edges = [await TestEdge.start(urls), await TestEdge.start(urls)];
});
afterAll(async () => {
  for (const edge of edges) await edge.stop();
  await rows.db.close();
  await redis.stop();
  await database.stop();
});

const edgeAt = (at: number) => edges[at] ?? edges[0] ?? expect.unreachable('an edge runs');
const pathOf = (given: Record<string, string>, path = '/') => `${path}?${new URLSearchParams(given).toString()}`;

async function open(path: string, agent = desktop, more: { method?: string; at?: number; host?: string } = {}) {
  const { method = 'GET', at = 0, host: name = host } = more;
  const { status, headers } = await edgeAt(at).get(name, path, { 'user-agent': agent }, method);
  return [status, headers.location];
}

interface Made {
  id: string;
  app_id: string;
  short_code: string;
  data: { firebase: object };
}
const made = (app = appId) => rows.db.query<Made>(`SELECT * FROM links WHERE app_id = $1 AND source = 'visit'`, [app]);
const clicksOf = (id: string) => edges.flatMap((edge) => edge.clicks()).filter(({ link_id }) => link_id === id);

/** A separate app for each test, so that tests see only their own links. */
async function newApp(more: object = {}, settings: object = { privacy_mode: 'full_ip', firebase_links }) {
  const own = `${newId('app', Date.now()).replaceAll('_', '-')}.localhost`;
  const id = await rows.app({ host: own, ...ids, fallback_url: 'https://www.example.com/home', settings, ...more });
  return { id, host: own };
}

test('every platform is redirected as the parameters say, and each visit is a click of one link', async () => {
  const given = {
    ...{ link: page, apn: 'com.example.shop', ibi: 'com.example.shop', isi: '123456789', efr: '1', d: '1' },
    ...{ ipfl: 'https://m.example.com/ipad', afl: 'https://m.example.com/a', utm_source: 'print', gclid: 'Cj0' },
  };
  const added = 'gclid=Cj0&utm_source=print';
  expect(await open(pathOf(given))).toEqual([
    302,
    expect.stringMatching(/^https:\/\/www\.example\.com\/p\/7\?color=red&/),
  ]);
  expect(new URL(String((await open(pathOf(given)))[1])).searchParams.toString().split('&').sort()).toEqual(
    `color=red&${added}`.split('&').sort(),
  );
  // On the other redirector, with another path and order of parameters, it is the same link.
  const reversed = Object.fromEntries(Object.entries(given).reverse());
  expect((await open(pathOf(reversed, '/promo/'), iphone, { at: 1 }))[1]).toContain('apps.apple.com/app/id123456789');
  expect((await open(pathOf(given, '/promo'), ipad))[1]).toMatch(/^https:\/\/m\.example\.com\/ipad\?/);
  expect((await open(pathOf(given), android))[1]).toMatch(/^https:\/\/m\.example\.com\/a\?/);
  const [link, ...others] = await made();
  expect(others).toEqual([]);
  expect(link).toMatchObject({ data: { firebase: { link: page } }, path: '/p/7?color=red', tap_page: 'off' });
  expect(clicksOf(link?.id ?? '').map(({ query, utm_source }) => [query, utm_source])).toEqual(
    Array.from({ length: 5 }, () => ['gclid=Cj0', 'print']),
  );
  // It is also an ordinary link.
  expect((await open(`/${link?.short_code}`))[0]).toBe(302);
});

test('concurrent first visits of one link, on several redirectors, create one link', async () => {
  const app = await newApp();
  const path = pathOf({ link: page });
  const visits = Array.from({ length: 20 }, (_, n) => open(path, desktop, { at: n % 2, host: app.host }));
  for (const answer of await Promise.all(visits)) expect(answer).toEqual([302, page]);
  const [link, ...others] = await made(app.id);
  expect([others.length, clicksOf(link?.id ?? '').length]).toEqual([0, 20]);
});

test('a long link to a host that is not allowed goes to the app’s fallback, creates no link, and is counted with its reason', async () => {
  const app = await newApp();
  const refused = [
    { link: 'https://evil.example/' },
    { link: page, ofl: 'https://evil.example/' },
    { link: 'javascript:alert(1)' },
    { link: page, isi: '666' },
    { link: page, apn: 'com.evil.app' },
  ];
  for (const given of refused)
    for (const agent of [iphone, android, desktop])
      expect(await open(pathOf(given), agent, { host: app.host })).toEqual([302, 'https://www.example.com/home']);
  expect(await made(app.id)).toEqual([]);
  await edgeAt(0).orphans.flush();
  const counted = await rows.db.query('SELECT short_code, visits FROM orphan_visits WHERE app_id = $1', [app.id]);
  expect(counted).toHaveLength(4);
  expect(counted).toContainEqual({ short_code: '?foreign_host evil.example', visits: 6 });
  expect(counted).toContainEqual({ short_code: '?foreign_app isi 666', visits: 3 });
});

test('apps without the setting, other paths and other hosts have no long links', async () => {
  const off = await newApp({}, { privacy_mode: 'full_ip' });
  expect((await open(pathOf({ link: page }), desktop, { host: off.host }))[1]).toMatch(
    /^https:\/\/www\.example\.com\/home/,
  );
  expect(await open(pathOf({ link: page }, '/promo/'), desktop, { host: off.host })).toEqual([404, undefined]);
  expect(await open(pathOf({ link: page }, '/other/'))).toEqual([404, undefined]);
  expect(await open(pathOf({ link: page }), desktop, { host: 'unknown.localhost' })).toEqual([404, undefined]);
  expect(await made(off.id)).toEqual([]);
});

test('bots, prefetches and HEAD are answered and create no link', async () => {
  const app = await newApp();
  const path = pathOf({ link: page });
  expect(await open(path, 'curl/8.5.0', { host: app.host })).toEqual([302, page]);
  expect(await open(path, desktop, { host: app.host, method: 'HEAD' })).toEqual([302, page]);
  const preview = { 'user-agent': 'facebookexternalhit/1.1' };
  const { body } = await edgeAt(0).get(app.host, pathOf({ link: page, st: 'A <b>' }), preview);
  expect(body).toContain('A &lt;b&gt;');
  // The code of a link that does not exist yet cannot be opened.
  expect(body).not.toContain('og:url');
  expect(await made(app.id)).toEqual([]);
});

test('an archived or deleted link cannot be opened, and is not created again', async () => {
  const app = await newApp();
  const path = pathOf({ link: page });
  await open(path, desktop, { host: app.host });
  const [link] = await made(app.id);
  const { id = '', short_code = '' } = link ?? {};
  for (const [column, value] of [
    ['archived', true],
    ['deleted_at', new Date()],
  ] as const) {
    await rows.set('links', id, column, value);
    await edgeAt(0).announce({ kind: 'link', host: app.host, short_code });
    await expect.poll(() => open(path, desktop, { host: app.host })).toEqual([404, undefined]);
  }
  expect(await made(app.id)).toHaveLength(1);
});

test('beyond the daily limit, visits are redirected without a link, and the next day has its own limit', async () => {
  const app = await newApp();
  await rows.db.execute(`INSERT INTO long_links_made VALUES ($1, (now() AT TIME ZONE 'UTC')::date, 5000)`, [app.id]);
  expect(await open(pathOf({ link: page }), desktop, { host: app.host })).toEqual([302, page]);
  expect(await made(app.id)).toEqual([]);
  await rows.db.execute('UPDATE long_links_made SET day = day - 1 WHERE app_id = $1', [app.id]);
  expect(await open(pathOf({ link: page }), desktop, { host: app.host })).toEqual([302, page]);
  expect(await made(app.id)).toHaveLength(1);
});

test('one redirector creates a limited number of links of an app per minute, with few concurrent queries', async () => {
  const app = await newApp();
  const [row] = await rows.db.query<LinkedAppRow>(`SELECT ${linkedAppColumns} FROM apps WHERE id = $1`, [app.id]);
  const linked = linkedAppOf(row ?? expect.unreachable('the app is there'));
  const answers: (() => void)[] = [];
  let isWaiting = true;
  const query = <Row extends object>() =>
    new Promise<Row[]>((settle) => {
      const answer = () => settle([{ outcome: 'off' }] as unknown as Row[]);
      if (isWaiting) answers.push(answer);
      else answer();
    });
  const cache = { find: async () => null, links: edgeAt(0).cache.links };
  const links = new LongLinks(cache, { query }, () => 1_000);
  const find = (n: number) => {
    const long = readLongLink(linked, `link=${encodeURIComponent(`https://www.example.com/${n}`)}`);
    if ('reason' in long) throw new Error(long.reason);
    return links.find(linked, long, true);
  };
  const first = Array.from({ length: 20 }, (_, n) => find(n));
  await expect.poll(() => [answers.length, links.counters.busy]).toEqual([longLinkLimits.makingMax, 12]);
  isWaiting = false;
  for (const answer of answers) answer();
  await Promise.all(first);
  for (let n = 100; n < 500; n++) await find(n);
  const { off, limit } = links.counters;
  expect([off, limit]).toEqual([longLinkLimits.perAppAndMinuteMax, 408 - longLinkLimits.perAppAndMinuteMax]);
});

test('the Postgres role of a redirector can create links only for apps with the setting, to their hosts, and can write no others', async () => {
  const [on, off] = [await newApp(), await newApp({}, {})];
  const db = new Postgres({ url: database.urlAs('signpost_redirector'), name: 'redirector' });
  const make = async (app: string, fields: object, code = `fdl~${'a'.repeat(32)}`) => {
    const values = [app, newId('lnk', Date.now()), code, JSON.stringify({ path: '/', data: {}, ...fields })];
    const [row] = await db.query<{ outcome: string }>(
      'SELECT signpost_make_long_link($1, $2, $3, $4) AS outcome',
      values,
    );
    return row?.outcome;
  };
  expect(await make(off.id, { fallback_url: page })).toBe('off');
  expect(await make('app_unknown', { fallback_url: page })).toBe('off');
  for (const name of ['ios_url', 'android_url', 'fallback_url'])
    for (const url of [
      'https://evil.example/',
      'http://www.example.com/',
      'https://www.example.com@evil.example/',
      'x',
    ])
      expect([name, url, await make(on.id, { [name]: url })]).toEqual([name, url, 'off']);
  await expect(make(on.id, { fallback_url: page }, 'summer')).rejects.toThrow('no long link');
  // Lists are paged by creation time in milliseconds.
  expect(await db.query("SELECT id FROM links WHERE created_at <> date_trunc('milliseconds', created_at)")).toEqual([]);
  await expect(db.execute(`UPDATE links SET archived = true`)).rejects.toThrow('permission denied');
  await expect(db.query('SELECT * FROM long_links_made')).rejects.toThrow('permission denied');
  expect([await make(on.id, { fallback_url: page }), await make(on.id, { fallback_url: page })]).toEqual([
    'made',
    'known',
  ]);
  await db.close();
});

test('the association files say that the app opens long links at the bare host', async () => {
  const { body } = await edgeAt(0).get(host, '/.well-known/apple-app-site-association');
  expect(JSON.parse(body).applinks.details[0].components).toEqual([
    { '/': '/', '?': { link: '?*' } },
    { '/': '/', exclude: true },
    { '/': '/*' },
  ]);
});
