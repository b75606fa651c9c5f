/** Shared pages: who may create them, and that a token reads only the figures of its own page. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { fieldsOfPlace, storeRecords, type TestRecord } from '#api/testing/records.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { limitKey, limitScript } from '#common/rate-limit.ts';

let api: ApiForTest;
let owner: Member;
let stranger: Member;
let appId = '';
/** Links with 3 and 5 clicks, both of the campaign spring. */
let first = '';
let second = '';
/** A link of another organization, with 7 clicks of a campaign spring. */
let foreign = '';

beforeAll(async () => {
  api = await apiForTest({ LOGIN_FAILURES_FREE: '3', RATE_LIMIT_GENERAL: '400' });
  [owner, stranger] = [await api.member(), await api.member()];
  appId = (await owner.call('POST', '/apps', { name: 'Shop' })).body.id;
  const foreignApp = (await stranger.call('POST', '/apps', { name: 'Other' })).body.id;
  const make = async (member: Member, app_id: string, title: string) =>
    (await member.call('POST', '/links', { app_id, path: '/x', title, campaign: 'spring' })).body.id;
  first = await make(owner, appId, 'First link');
  second = await make(owner, appId, 'Second link');
  foreign = await make(stranger, foreignApp, 'Foreign link');
  const records = [
    ...clicks(owner, appId, first, 3),
    {
      ...click(owner, appId, first, 90),
      kind: 'events' as const,
      is_conversion: true,
      currency: 'EUR',
      amount: 12_500,
    },
    ...clicks(owner, appId, second, 5),
    ...clicks(stranger, foreignApp, foreign, 7),
  ];
  await storeRecords(api.clickhouse, records, 'shared');
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

let number = 0;

function click({ organization_id }: Member, app_id: string, link_id: string, minutesAgo: number): TestRecord {
  const idx = number++;
  return {
    ...{ kind: 'clicks', organization_id, app_id, link_id, campaign: 'spring', platform: 'ios', country: 'DE' },
    ...{ utm_source: '', utm_medium: '', browser: 'Safari', is_bot: false, is_conversion: false, currency: '' },
    ...fieldsOfPlace(idx, false),
    ...{ amount: 0, trigger: '', visitor: idx, idx, time: Date.now() - minutesAgo * MINUTE_MS },
  };
}

const clicks = (member: Member, app: string, link: string, count: number) =>
  Array.from({ length: count }, (_, n) => click(member, app, link, 10 + n));

const share = async (body: object, member = owner) => {
  const reply = await member.call('POST', '/shared-pages', body);
  expect(reply.status, JSON.stringify(reply.body)).toBe(201);
  return reply.body;
};
const visit = (body: object) => api.call('', 'POST', '/shared-figures', body);
const clicksOf = async (body: object) => (await visit(body)).body.totals?.clicks;

test('a page about a link shows the figures of this link, without a login and without revenue', async () => {
  const page = await share({ link_id: first });
  expect(page).toMatchObject({
    link_id: first,
    campaign: null,
    name: 'First link',
    has_password: false,
    expires_at: null,
  });
  expect(page.url).toMatch(/\/shared#[\w-]{43}$/);
  const { status, body } = await visit({ token: page.token, interval: '7d', timezone: 'Europe/Berlin' });
  expect(status).toBe(200);
  expect(body).toMatchObject({ name: 'First link', campaign: null, timezone: 'Europe/Berlin', ticket: null });
  expect(body.totals).toEqual({ clicks: 3, unique_clicks: 3, installs: 0, events: 1, conversion_rate: 0, revenue: [] });
  expect(body.timeseries.map(({ clicks }: { clicks: number }) => clicks).reduce((a: number, b: number) => a + b)).toBe(
    3,
  );
  expect(body.breakdowns.map(({ by }: { by: string }) => by)).toEqual(['country', 'platform', 'browser', 'referrer']);
  expect(body.breakdowns[0].data).toEqual([{ value: 'DE', clicks: 3 }]);
  const open = await share({ link_id: first, shows_revenue: true });
  expect((await visit({ token: open.token })).body.totals.revenue).toEqual([{ currency: 'EUR', amount: '12.5' }]);
});

test('a page without a name gets the title of its link, cut between two characters', async () => {
  const title = `x${'😀'.repeat(120)}`;
  const link = (await owner.call('POST', '/links', { app_id: appId, path: '/emoji', title })).body;
  expect((await share({ link_id: link.id })).name).toBe(`x${'😀'.repeat(99)}`);
  const name = '😀'.repeat(100);
  expect((await share({ link_id: link.id, name })).name).toBe(name);
});

test('a page about a campaign counts only the links of its own organization', async () => {
  const page = await share({ campaign: 'spring' });
  expect(await clicksOf({ token: page.token })).toBe(8);
  const theirs = await share({ campaign: 'spring' }, stranger);
  expect(await clicksOf({ token: theirs.token })).toBe(7);
  expect((await visit({ token: theirs.token })).body).toMatchObject({ name: 'spring', url: null, campaign: 'spring' });
});

test.each([
  { link_id: 'foreign' },
  { campaign: 'spring' },
  { organization_id: 'org' },
  { app_id: 'app' },
  { filters: {} },
  { start: '2020-01-01' },
  { include_bots: true },
])('a visit that tries to choose what is shown is refused: %o', async (more) => {
  const page = await share({ link_id: first });
  const { status, body } = await visit({ token: page.token, ...more });
  expect([status, body.error.code]).toEqual([400, 'VALIDATION_ERROR']);
});

test('a token is not a login: it gives access to no other endpoint, and no login opens a page without its token', async () => {
  const page = await share({ link_id: first });
  for (const path of ['/links', `/links/${first}`, `/links/${first}/stats`, '/analytics/overview', '/shared-pages']) {
    expect((await api.call(page.token, 'GET', path)).status, path).toBe(401);
  }
  expect((await owner.call('POST', '/shared-figures', { token: page.id })).status).toBe(404);
  for (const token of ['x', page.token.slice(0, 42), `${page.token}x`, page.token.toLowerCase(), "' OR true --"]) {
    expect((await visit({ token })).status, token).toBe(404);
  }
});

test('the token is stored as a hash, shown once, and never listed', async () => {
  const page = await share({ link_id: first });
  const [row] = await api.db.query<{ row: string }>('SELECT p::text AS row FROM shared_pages p WHERE id = $1', [
    page.id,
  ]);
  expect(row?.row).not.toContain(page.token);
  const { body } = await owner.call('GET', `/shared-pages?link_id=${first}`);
  expect(body.data.map(({ id }: { id: string }) => id)).toContain(page.id);
  expect(JSON.stringify(body)).not.toContain(page.token);
  expect(Object.keys(body.data[0])).not.toContain('token_hash');
});

test('a revoked page, an expired page and a page of a deleted link all get the same 404', async () => {
  const link = (await owner.call('POST', '/links', { app_id: appId, path: '/x' })).body.id;
  const [revoked, expired, ended] = [
    await share({ link_id: first }),
    await share({ link_id: first, expires_at: new Date(Date.now() + HOUR_MS).toISOString() }),
    await share({ link_id: link }),
  ];
  expect(await clicksOf({ token: expired.token })).toBe(3);
  expect((await owner.call('DELETE', `/shared-pages/${revoked.id}`)).status).toBe(200);
  await api.db.execute(`UPDATE shared_pages SET expires_at = now() - interval '1 second' WHERE id = $1`, [expired.id]);
  await owner.call('DELETE', `/links/${link}`);
  const answers = await Promise.all([revoked, expired, ended].map(({ token }) => visit({ token })));
  expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
  expect(new Set(answers.map(({ body }) => body.error.message)).size).toBe(1);
});

test('the password of a page is the same text from every keyboard', async () => {
  const page = await share({ link_id: first, password: 'Zürich am Morgen' });
  const decomposed = await visit({ token: page.token, password: 'Zürich am Morgen'.normalize('NFD') });
  expect(decomposed.status).toBe(200);
});

test('a password is required once and then replaced by a ticket, until the page or its password changes', async () => {
  const page = await share({ link_id: first, password: 'open sesame' });
  const reasonOf = async (more: object) => {
    const { status, body } = await visit({ token: page.token, ...more });
    return [status, body.error?.details?.reason ?? null];
  };
  expect(await reasonOf({})).toEqual([403, 'password_required']);
  expect(await reasonOf({ password: 'wrong' })).toEqual([403, 'password_wrong']);
  const { ticket, totals } = (await visit({ token: page.token, password: 'open sesame' })).body;
  expect(totals.clicks).toBe(3);
  expect(await clicksOf({ token: page.token, ticket })).toBe(3);
  const other = await share({ link_id: second, password: 'open sesame' });
  expect((await visit({ token: other.token, ticket })).status).toBe(403);
  const forged = `${Date.now() + 11 * HOUR_MS}.${ticket.split('.')[1]}`;
  for (const text of [forged, '', '.', `${Date.now() + DAY_MS}.`, ticket.slice(0, -4)]) {
    expect(await reasonOf({ ticket: text }), text).toEqual([403, 'password_required']);
  }
  const [row] = await api.db.query<{ password_hash: string }>('SELECT password_hash FROM shared_pages WHERE id = $1', [
    page.id,
  ]);
  expect(row?.password_hash).toMatch(/^\$argon2id\$/);
  await api.db.execute('UPDATE shared_pages SET password_hash = $2 WHERE id = $1', [page.id, `${row?.password_hash} `]);
  expect(await reasonOf({ ticket })).toEqual([403, 'password_required']);
});

test('a ticket expires after twelve hours', async () => {
  const page = await share({ link_id: first, password: 'open sesame' });
  const { ticket } = (await visit({ token: page.token, password: 'open sesame' })).body;
  api.advance(12 * HOUR_MS + 1);
  expect((await visit({ token: page.token, ticket })).status).toBe(403);
  api.advance(-12 * HOUR_MS - 1);
});

test('password guesses are throttled for each page separately', { tags: ['slow'] }, async () => {
  const [page, other] = [
    await share({ link_id: first, password: 'open sesame' }),
    await share({ link_id: first, password: 'open sesame' }),
  ];
  const statuses: number[] = [];
  for (let n = 0; n < 5; n++) statuses.push((await visit({ token: page.token, password: `guess ${n}` })).status);
  expect(statuses).toEqual([403, 403, 403, 403, 429]);
  expect((await visit({ token: page.token, password: 'open sesame' })).status).toBe(429);
  expect((await visit({ token: other.token, password: 'open sesame' })).status).toBe(200);
});

test('viewers, members of other organizations and server keys can neither share nor revoke', async () => {
  const viewer = await api.member('viewer', owner.organization_id);
  const page = await share({ link_id: first });
  const key = (await owner.call('POST', '/keys', { name: 'k', scopes: ['analytics:read', 'analytics:write'] })).body
    .key;
  expect((await viewer.call('POST', '/shared-pages', { link_id: first })).status).toBe(403);
  expect((await viewer.call('DELETE', `/shared-pages/${page.id}`)).status).toBe(403);
  expect((await viewer.call('GET', '/shared-pages')).body.data.length).toBeGreaterThan(0);
  expect((await stranger.call('POST', '/shared-pages', { link_id: first })).status).toBe(403);
  const theirs = { campaign: 'spring', organization_id: owner.organization_id };
  expect((await stranger.call('POST', '/shared-pages', theirs)).status).toBe(403);
  expect((await stranger.call('DELETE', `/shared-pages/${page.id}`)).status).toBe(403);
  const listed = (await stranger.call('GET', '/shared-pages')).body.data;
  expect(listed.every((one: { organization_id: string }) => one.organization_id === stranger.organization_id)).toBe(
    true,
  );
  expect((await stranger.call('GET', `/shared-pages?organization_id=${owner.organization_id}`)).status).toBe(403);
  for (const [method, path, body] of [
    ['POST', '/shared-pages', { link_id: first }],
    ['GET', '/shared-pages', undefined],
    ['DELETE', `/shared-pages/${page.id}`, undefined],
  ] as const) {
    expect((await api.call(key, method, path, body)).status).toBe(403);
  }
  expect(await clicksOf({ token: page.token })).toBe(3);
});

test.each([
  [{}, 'body'],
  [{ link_id: 'lnk_x', campaign: 'spring' }, 'body'],
  [{ campaign: 'spring', expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
  [{ campaign: 'spring', password: 'short' }, 'password'],
  [{ campaign: 'spring', name: ' ' }, 'name'],
])('a page that cannot be made is a 400 that names the field: %o', async (body, field) => {
  const reply = await owner.call('POST', '/shared-pages', body);
  expect([reply.status, reply.body.error.details.field]).toEqual([400, field]);
});

test('a page has its own limit of visits, and sharing and revoking are recorded in the audit log', async () => {
  const page = await share({ link_id: first });
  const quiet = await share({ link_id: first });
  // Simulates 400 visitors from other addresses within the minute.
  const take = api.redis.script(limitScript);
  const fill = api.redis.script(`redis.call('HSET', KEYS[1], 'count', 400) return 1`);
  await take([limitKey('general', page.id)], [Date.now() + MINUTE_MS, MINUTE_MS]);
  await fill([limitKey('general', page.id)], []);
  expect((await visit({ token: page.token })).status).toBe(429);
  expect((await visit({ token: quiet.token })).status).toBe(200);
  await owner.call('DELETE', `/shared-pages/${page.id}`);
  const log = (await owner.call('GET', `/audit-log?target_id=${page.id}`)).body.data;
  expect(log.map(({ action }: { action: string }) => action)).toEqual(['deleteSharedPage', 'createSharedPage']);
});

test('an organization has at most 200 pages, and pages that expired a month ago are deleted to make room', async () => {
  const member = await api.member();
  await api.db.execute(
    `INSERT INTO shared_pages (id, organization_id, campaign, name, token_hash, shows_revenue, created_at, expires_at)
     SELECT 'shp_' || n, $1, 'c', 'n', sha256(($1 || n)::bytea), false, now(), now() - interval '29 days' FROM generate_series(1, 200) n`,
    [member.organization_id],
  );
  const refused = await member.call('POST', '/shared-pages', { campaign: 'c' });
  expect([refused.status, refused.body.error.message]).toEqual([400, expect.stringContaining('200 shared pages')]);
  await api.db.execute(`UPDATE shared_pages SET expires_at = now() - interval '31 days' WHERE organization_id = $1`, [
    member.organization_id,
  ]);
  await share({ campaign: 'c' }, member);
  expect((await member.call('GET', '/shared-pages')).body.pagination.total).toBe(1);
});
