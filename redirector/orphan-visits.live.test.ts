import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { DAY_MS } from '#common/durations.ts';
import { testApp } from '#common/testing/link-snapshots.ts';
import { OrphanVisits, orphanLimits } from './orphan-visits.ts';
import { TestEdge } from './testing/running-edge.ts';

let api: ApiForTest;
let edge: TestEdge;
let owner: Member;
const browser = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36' };

beforeAll(async () => {
  api = await apiForTest();
  edge = await TestEdge.start({ redis: api.redisServer.url, postgres: api.databaseUrl });
  owner = await api.member();
});
afterAll(async () => {
  await edge.stop();
  await api.stop();
});

async function newApp(name: string, more: object = {}) {
  const { body } = await owner.call('POST', '/apps', { name, ...more });
  return { ...testApp, id: String(body.id), host: String(body.host) };
}

async function listed(app: { id: string }, query = '', member = owner) {
  const { body } = await member.call('GET', `/orphan-visits?app_id=${app.id}${query}`);
  const codes = body.data?.map(({ short_code, visits }: { short_code: string; visits: number }) => [
    short_code,
    visits,
  ]);
  return { codes, others: body.other_visits, body };
}

test('visits of codes that a host does not have are listed, without bots, prefetches and HEAD', async () => {
  const app = await newApp('Orphans', { settings: { codes_ignore_case: true } });
  await owner.call('POST', '/links', { app_id: app.id, url: 'https://example.com/', short_code: 'known' });
  const visit = (path: string, headers = {}, method = 'GET') =>
    edge.get(app.host, path, { ...browser, ...headers }, method);
  for (const path of ['/sumer', '/Sumer', '/caf%C3%A9', '/known', '/a//b', '/']) await visit(path);
  await visit('/sumer', { 'user-agent': 'curl/8.5.0' });
  await visit('/sumer', { 'sec-purpose': 'prefetch' });
  await visit('/sumer', {}, 'HEAD');
  await edge.get('unknown.localhost', '/sumer', browser);
  await edge.orphans.flush();
  const { codes, others, body } = await listed(app);
  expect([codes, others]).toEqual([
    [
      ['sumer', 2],
      ['café', 1],
    ],
    0,
  ]);
  expect(body.data[0]).toMatchObject({ app_id: app.id, host: app.host, reason: 'unknown_code', detail: null });
  // Once the link exists, its visits are not counted as orphans.
  await owner.call('POST', '/links', { app_id: app.id, url: 'https://example.com/', short_code: 'sumer' });
  await expect.poll(async () => (await visit('/sumer')).status).toBe(302);
  await edge.orphans.flush();
  expect((await listed(app)).codes[0]).toEqual(['sumer', 2]);
});

test('long links that are not followed are listed with the reason', async () => {
  const app = await newApp('Long', { settings: { firebase_links: { hosts: ['WWW.example.com'] } } });
  for (const link of ['https://evil.example/', 'https://www.example.com/', 'https://evil.example/more'])
    await edge.get(app.host, `/?link=${encodeURIComponent(link)}`, browser);
  await edge.orphans.flush();
  const { body } = await listed(app);
  expect(body.data).toEqual([
    expect.objectContaining({ short_code: '', reason: 'foreign_host', detail: 'evil.example', visits: 2 }),
  ]);
  const { body: links } = await owner.call('GET', `/links?app_id=${app.id}`);
  expect(links.data).toMatchObject([{ source: 'visit', fallback_url: 'https://www.example.com/' }]);
});

test('another organization sees none of them', async () => {
  const app = await newApp('Mine');
  await edge.get(app.host, '/lost', browser);
  await edge.orphans.flush();
  const stranger = await api.member();
  expect((await stranger.call('GET', `/orphan-visits?app_id=${app.id}`)).status).toBe(403);
  expect((await stranger.call('GET', '/orphan-visits')).body).toMatchObject({ data: [], other_visits: 0 });
});

test('a scan of random codes does not grow the list, and does not displace a code that people visit', async () => {
  const app = await newApp('Scanned');
  const orphans = new OrphanVisits(edge.db, Date.now);
  const rounds = 3;
  for (let round = 0; round < rounds; round++) {
    for (let n = 0; n < 50_000; n++) {
      orphans.count(app, `scan${round}x${n}`);
      if (n % 500 === 0) orphans.count(app, 'printed');
    }
    expect(orphans.size).toBeLessThanOrEqual(orphanLimits.codesMax + 1);
    await orphans.flush();
  }
  const { codes, others, body } = await listed(app);
  expect(codes[0]).toEqual(['printed', rounds * 100]);
  expect(body.pagination.total).toBe(orphanLimits.codesPerDayMax);
  // The other codes of the list were visited once each; all other visits are in the sum.
  expect(others).toBe(rounds * 50_000 - (orphanLimits.codesPerDayMax - 1));
});

test('counts are kept while Postgres is unavailable, and added once', async () => {
  const app = await newApp('Away');
  let isAway = true;
  const orphans = new OrphanVisits(
    { query: (sql, values) => (isAway ? Promise.reject(new Error('away')) : edge.db.query(sql, values)) },
    Date.now,
  );
  orphans.count(app, 'lost');
  await orphans.flush();
  orphans.count(app, 'lost');
  isAway = false;
  await orphans.flush();
  await orphans.flush();
  expect((await listed(app)).codes).toEqual([['lost', 2]]);
});

test('counts are summed over days, deleted after 30 days, and not accepted from a clock that is wrong', async () => {
  const app = await newApp('Old');
  let nowMs = Date.now();
  const orphans = new OrphanVisits(edge.db, () => nowMs);
  for (const days of [0, -1, -40, 400]) {
    nowMs = Date.now() + days * DAY_MS;
    orphans.count(app, 'lost');
    await orphans.flush();
  }
  expect([(await listed(app, '&days=30')).codes, (await listed(app, '&days=1')).codes]).toEqual([
    [['lost', 2]],
    [['lost', 1]],
  ]);
  await edge.db.execute(`UPDATE orphan_visits SET day = day - 30 WHERE app_id = $1`, [app.id]);
  nowMs = Date.now();
  orphans.count(app, 'new');
  await orphans.flush();
  const left = await edge.db.query('SELECT day FROM orphan_visits WHERE app_id = $1', [app.id]);
  expect(left).toHaveLength(2);
});
