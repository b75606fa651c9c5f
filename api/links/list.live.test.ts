import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { newId } from '#common/ids.ts';

let api: ApiForTest;
let owner: Member;
let other: Member;
const apps: string[] = [];
/** Newest first, like lists. */
const links: { id: string; n: number }[] = [];

const LINKS = 130;

beforeAll(async () => {
  api = await apiForTest();
  owner = await api.member();
  other = await api.member();
  for (const name of ['A', 'B']) apps.push((await owner.call('POST', '/apps', { name })).body.id);
  const foreign = (await other.call('POST', '/apps', { name: 'Foreign' })).body.id;
  await other.call('POST', '/links', { app_id: foreign, path: '/foreign', tags: ['five'], campaign: 'even' });
  for (let n = 0; n < LINKS; n++) {
    const reply = await owner.call('POST', '/links', {
      app_id: apps[n % 2],
      path: `/item/${n}`,
      short_code: `Code-${n}`,
      title: n % 10 === 0 ? `50% ÉTÉ_${n}` : null,
      campaign: n % 2 === 0 ? 'even' : null,
      tags: n % 5 === 0 ? ['five', 'all'] : ['all'],
      archived: n % 13 === 0,
    });
    links.unshift({ id: reply.body.id, n });
  }
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

const idsOf = (wanted: (n: number) => boolean) => links.filter(({ n }) => wanted(n)).map(({ id }) => id);
const list = (query: string, member = owner) => member.call('GET', `/links?${query}`);
const listed = async (query: string) => (await list(query)).body.data.map((link: { id: string }) => link.id);

test('a list is newest first, 50 at a time, with exact totals', async () => {
  const { status, body } = await list('');
  expect(status).toBe(200);
  expect(body.data.map((link: { id: string }) => link.id)).toEqual(links.slice(0, 50).map(({ id }) => id));
  expect(body.pagination).toEqual({ total: LINKS, limit: 50, offset: 0, has_more: true });
});

test('a member of two organizations lists and changes the links and tags of one of them', async () => {
  const both = await api.member('viewer');
  await api.db.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'member')`, [
    ...[both.user_id, owner.organization_id],
  ]);
  const ask = async (query: string) => (await both.call('GET', query)).body;
  expect((await ask(`/links?limit=1&organization_id=${owner.organization_id}`)).pagination.total).toBe(LINKS);
  expect((await ask(`/links?limit=1&sort=clicks&organization_id=${both.organization_id}`)).data).toEqual([]);
  expect((await ask(`/links?limit=1&search=item&organization_id=${both.organization_id}`)).data).toEqual([]);
  expect((await ask(`/tags?organization_id=${both.organization_id}`)).data).toEqual([]);
  expect((await ask(`/tags?organization_id=${owner.organization_id}`)).data).toHaveLength(2);
  const change = async (filter: object, method = 'PATCH') => {
    const body = method === 'PATCH' ? { filter, changes: { title: 'x' } } : { filter };
    const { status, body: answer } = await both.call(method, '/links/bulk', body);
    return [status, answer.updated ?? answer.deleted ?? answer.error.details?.field ?? answer.error.code];
  };
  const of = ({ organization_id }: Member, more: object = { search: 'nothing has this' }) => ({
    organization_id,
    ...more,
  });
  expect(await change(of(owner))).toEqual([200, 0]);
  for (const method of ['PATCH', 'DELETE']) {
    expect(await change(of(both), method)).toEqual([403, 'FORBIDDEN']);
    expect(await change(of(other), method)).toEqual([403, 'FORBIDDEN']);
    expect(await change({ ...of(other), organization_id: newId('org', 1) }, method)).toEqual([404, 'NOT_FOUND']);
    expect(await change(of(owner, {}), method)).toEqual([400, 'filter']);
  }
  for (const path of ['/links', '/tags']) {
    expect((await both.call('GET', `${path}?organization_id=${other.organization_id}`)).status).toBe(403);
    expect((await both.call('GET', `${path}?organization_id=${newId('org', 1)}`)).status).toBe(404);
  }
});

test.each([
  ['limit=100', 100, 0, true],
  ['limit=1000', 100, 0, true],
  ['limit=30&offset=100', 30, 100, false],
  ['limit=29&offset=100', 29, 100, true],
  ['offset=130', 50, 130, false],
  ['offset=9007199254740991', 50, 9007199254740991, false],
])('%s returns the requested page and says whether more follow', async (query, limit, offset, has_more) => {
  const { body } = await list(query);
  expect(body.pagination).toEqual({ total: LINKS, limit, offset, has_more });
  expect(body.data.map((link: { id: string }) => link.id)).toEqual(
    links.slice(offset, offset + limit).map(({ id }) => id),
  );
});

test.each([
  ['limit=0', 'limit'],
  ['limit=-1', 'limit'],
  ['limit=x', 'limit'],
  ['limit=1.5', 'limit'],
  ['limit=', 'limit'],
  ['offset=-1', 'offset'],
  ['offset=1e30', 'offset'],
  ['archived=maybe', 'archived'],
  ['sort=random', 'sort'],
  ['created_after=yesterday', 'created_after'],
  ['created_before=0000-01-01T00:00:00Z', 'created_before'],
  ['search=', 'search'],
  ['search=%00', 'search'],
  [`search=${'x'.repeat(201)}`, 'search'],
  ['tag=', 'tag'],
  ['page=2', 'page'],
  ['limit=1&limit=2', 'limit'],
])('%s is a 400 that names the parameter', async (query, field) => {
  const { status, body } = await list(query);
  expect([status, body.error?.details?.field]).toEqual([400, field]);
});

test('each filter, alone and combined, returns the matching links and their number', async () => {
  const middle = links[60];
  const createdAt = (await owner.call('GET', `/links/${middle?.id}`)).body.created_at;
  const cases: [string, (n: number) => boolean][] = [
    [`app_id=${apps[0]}`, (n) => n % 2 === 0],
    ['campaign=even', (n) => n % 2 === 0],
    ['campaign=Even', () => false],
    ['tag=five', (n) => n % 5 === 0],
    ['archived=true', (n) => n % 13 === 0],
    ['archived=false', (n) => n % 13 !== 0],
    [`app_id=${apps[1]}&archived=true`, (n) => n % 2 === 1 && n % 13 === 0],
    ['tag=five&campaign=even', (n) => n % 10 === 0],
    ['search=item/12', (n) => `/item/${n}`.includes('item/12')],
    ['search=CODE-7', (n) => `code-${n}`.includes('code-7')],
    [`search=${encodeURIComponent('50% ÉTÉ_1')}`, (n) => n % 10 === 0 && `${n}`.startsWith('1')],
    ['search=%25', (n) => n % 10 === 0],
    ['search=_', (n) => n % 10 === 0],
    ['search=%5C', () => false],
    ["search='; DROP TABLE links; --", () => false],
    [`created_after=${createdAt}`, (n) => n >= (middle?.n ?? 0)],
    [`created_before=${createdAt}`, (n) => n < (middle?.n ?? 0)],
    [`created_before=${encodeURIComponent('9999-12-31T23:59:59+23:59')}`, () => true],
    [`created_before=${createdAt}&search=item&tag=five&app_id=${apps[0]}`, (n) => n % 10 === 0 && n < (middle?.n ?? 0)],
  ];
  for (const [query, wanted] of cases) {
    const { body } = await list(`limit=100&${query}`);
    const expected = idsOf(wanted);
    expect(body.pagination?.total, query).toBe(expected.length);
    expect(
      body.data.map((link: { id: string }) => link.id),
      query,
    ).toEqual(expected.slice(0, 100));
    expect(await listed(`limit=5&offset=3&${query}`), query).toEqual(expected.slice(3, 8));
  }
});

test('sort=clicks returns the most clicked first, and then the newest', async () => {
  const clicked = [links[100], links[7], links[55]].map((link) => link?.id ?? '');
  const click = (link_id: string, organization_id = owner.organization_id, is_bot = false) =>
    api.clickhouse.command(
      `INSERT INTO clicks (click_id, organization_id, app_id, link_id, time, is_bot)
       VALUES ({click_id:String}, {organization_id:String}, {app_id:String}, {link_id:String}, now64(3), {is_bot:Bool})`,
      { click_id: newId('clk', Date.now()), organization_id, app_id: apps[0], link_id, is_bot },
    );
  for (const [at, link_id] of clicked.entries()) for (let n = 3; n > at; n--) await click(link_id);
  for (let n = 0; n < 9; n++) await click(links[3]?.id ?? '', owner.organization_id, true);
  for (let n = 0; n < 9; n++) await click(links[4]?.id ?? '', other.organization_id);
  const expected = [...clicked, ...links.map(({ id }) => id).filter((id) => !clicked.includes(id))];
  expect(await listed('sort=clicks&limit=100')).toEqual(expected.slice(0, 100));
  expect(await listed('sort=clicks&limit=5&offset=1')).toEqual(expected.slice(1, 6));
  expect(await listed('sort=clicks&limit=50&offset=100')).toEqual(expected.slice(100));
  const even = expected.filter((id) => links.some((link) => link.id === id && link.n % 2 === 0));
  expect(await listed('sort=clicks&limit=100&campaign=even')).toEqual(even);
});

test('a list never contains links of another organization, and an app of another organization gets 403', async () => {
  const foreign = (await list('', other)).body;
  expect(foreign.pagination.total).toBe(1);
  expect((await list(`tag=five`, other)).body.pagination.total).toBe(1);
  expect((await list(`search=item`, other)).body.pagination.total).toBe(0);
  expect((await list(`app_id=${apps[0]}`, other)).status).toBe(403);
  expect((await list(`app_id=${newId('app', Date.now())}`)).status).toBe(404);
});

test('a user of two organizations sees the links of both, in order', async () => {
  const both = await api.member('viewer', owner.organization_id);
  await api.db.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'viewer')`, [
    both.user_id,
    other.organization_id,
  ]);
  const { body } = await list('limit=100&offset=100', both);
  expect(body.pagination.total).toBe(LINKS + 1);
  expect(body.data).toHaveLength(31);
  const times = body.data.map((link: { created_at: string }) => link.created_at);
  expect(times).toEqual([...times].sort().reverse());
  expect(body.data.some((link: { path: string }) => link.path === '/foreign')).toBe(true);
});

test('counts and tags follow every change, and a deleted app removes its links from every list', async () => {
  const member = await api.member();
  const app = (await member.call('POST', '/apps', { name: 'C' })).body.id;
  const made = [];
  for (let n = 0; n < 4; n++) made.push((await member.call('POST', '/links', { path: `/${n}`, tags: ['t'] })).body.id);
  const totals = async () => {
    const queries = ['', 'archived=true', 'archived=false', 'tag=t', 'tag=u', `app_id=${app}`];
    return Promise.all(queries.map(async (query) => (await list(query, member)).body.pagination?.total ?? null));
  };
  expect(await totals()).toEqual([4, 0, 4, 4, 0, 4]);
  await member.call('PATCH', `/links/${made[0]}`, { archived: true, tags: ['u', 't'] });
  await member.call('PATCH', `/links/${made[1]}`, { tags: null });
  await member.call('DELETE', `/links/${made[2]}`);
  expect(await totals()).toEqual([3, 1, 2, 2, 1, 3]);
  await member.call('PATCH', `/links/${made[0]}`, { archived: false });
  await member.call('DELETE', `/links/${made[0]}`);
  expect(await totals()).toEqual([2, 0, 2, 1, 0, 2]);
  await member.call('DELETE', `/apps/${app}`);
  expect(await totals()).toEqual([0, 0, 0, 0, 0, null]);
  expect((await member.call('GET', `/links/${made[3]}`)).status).toBe(404);
  expect((await list(`app_id=${app}`, member)).status).toBe(404);
});

test('the stored counts are exact after many concurrent changes', async () => {
  const member = await api.member();
  const made: string[] = [];
  for (const name of ['D', 'E']) made.push((await member.call('POST', '/apps', { name })).body.id);
  const work = async (n: number) => {
    const app_id = made[n % 2];
    const { id } = (await member.call('POST', '/links', { app_id, path: '/x', archived: n % 3 === 0, tags: ['t'] }))
      .body;
    if (n % 4 === 0) await member.call('PATCH', `/links/${id}`, { archived: n % 8 === 0, tags: ['u'] });
    if (n % 5 === 0) await member.call('DELETE', `/links/${id}`);
    if (n % 20 === 0) await member.call('PATCH', `/apps/${app_id}`, { fallback_url: `https://example.com/${n}` });
  };
  for (let round = 0; round < 4; round++) await Promise.all(Array.from({ length: 40 }, (_, n) => work(round * 40 + n)));
  const counted = `SELECT count(*) FILTER (WHERE NOT archived) AS active, count(*) FILTER (WHERE archived) AS archived,
    count(*) FILTER (WHERE 'u' = ANY (tags)) AS tagged FROM links WHERE organization_id = $1 AND deleted_at IS NULL`;
  const [truth] = await api.db.query<{ active: number; archived: number; tagged: number }>(counted, [
    member.organization_id,
  ]);
  const total = async (query: string) => (await list(query, member)).body.pagination.total;
  expect([await total('archived=false'), await total('archived=true'), await total('tag=u')]).toEqual([
    truth?.active,
    truth?.archived,
    truth?.tagged,
  ]);
  expect(truth?.active).toBeGreaterThan(50);
});

test('pages by cursor contain every link once, even while others are created', async () => {
  const seen: string[] = [];
  let cursor = '';
  do {
    const { body } = await list(`limit=40&campaign=even&cursor=${cursor}`);
    seen.push(...body.data.map((link: { id: string }) => link.id));
    expect([body.pagination.offset, body.pagination.has_more]).toEqual([0, body.pagination.next_cursor !== null]);
    cursor = body.pagination.next_cursor;
    if (seen.length === 40) await owner.call('POST', '/links', { app_id: apps[0], path: '/late', campaign: 'even' });
  } while (cursor);
  expect(seen).toEqual(idsOf((n) => n % 2 === 0));
  const [late] = (await list('campaign=even&limit=1')).body.data;
  await owner.call('DELETE', `/links/${late.id}`);
  const first = (await list('search=item&limit=7&cursor=')).body;
  const second = (await list(`search=item&limit=7&cursor=${first.pagination.next_cursor}`)).body;
  const expected = idsOf((n) => `/item/${n}`.includes('item')).slice(0, 14);
  expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(expected);
  expect(second.pagination.total).toBe(first.pagination.total);
});

test.each([
  ['cursor=x', 'cursor'],
  [`cursor=${Buffer.from('99999999999999999.lnk_x').toString('base64url')}`, 'cursor'],
  ['include=revenue', 'include'],
  ['include=', 'include'],
  ['tag=a,-b', 'tag'],
])('%s is a 400 that names its parameter', async (query, field) => {
  const { status, body } = await list(query);
  expect([status, body.error.details.field]).toEqual([400, field]);
});

test('a cursor cannot be combined with an offset or another order', async () => {
  const { next_cursor } = (await list('limit=1&cursor=')).body.pagination;
  for (const other of ['offset=1', 'sort=clicks']) {
    const { status, body } = await list(`cursor=${next_cursor}&${other}`);
    expect([status, body.error.details.field], other).toEqual([400, 'cursor']);
  }
});

test('several tags find links with any of them, excluded ones those with none, and a tag may contain a comma', async () => {
  const member = await api.member();
  const app_id = (await member.call('POST', '/apps', { name: 'Tags' })).body.id;
  for (const tags of [['a'], ['a', 'b'], ['b', 'c,d'], []])
    await member.call('POST', '/links', { app_id, path: '/x', tags });
  const totals = async (tag: string) => (await list(`tag=${encodeURIComponent(tag)}`, member)).body.pagination.total;
  expect([
    await totals('a'),
    await totals('a,b'),
    await totals('-a'),
    await totals('-a,-b'),
    await totals('c\\,d'),
  ]).toEqual([2, 3, 2, 1, 1]);
  expect((await list('tag=a,b&search=x', member)).body.pagination.total).toBe(3);
  const tags = await member.call('GET', '/tags');
  expect(tags.body).toEqual({
    data: [
      { tag: 'a', links: 2 },
      { tag: 'b', links: 2 },
      { tag: 'c,d', links: 1 },
    ],
    pagination: { total: 3, limit: 50, offset: 0, has_more: false },
  });
  expect((await member.call('GET', `/tags?app_id=${app_id}&limit=1&offset=1`)).body.data).toEqual([
    { tag: 'b', links: 2 },
  ]);
  expect((await member.call('GET', `/tags?app_id=${apps[0]}`)).status).toBe(403);
});

test('rows contain the requested counts, including zero, and otherwise none', async () => {
  const [link] = links;
  await api.clickhouse.command(
    `INSERT INTO installs (install_id, organization_id, app_id, link_id, time)
     VALUES ('ins_include', {organization_id:String}, {app_id:String}, {link_id:String}, now64(3))`,
    { organization_id: owner.organization_id, app_id: apps[0], link_id: link?.id ?? '' },
  );
  const rows = (await list('include=clicks,installs&limit=100&sort=clicks')).body.data as {
    id: string;
    clicks: number;
    installs: number;
  }[];
  expect(rows.find(({ id }) => id === link?.id)).toMatchObject({ clicks: 0, installs: 1 });
  expect(rows.slice(0, 4).map(({ clicks }) => clicks)).toEqual([3, 2, 1, 0]);
  const [bare] = (await list('limit=1&include=installs')).body.data;
  expect([bare.clicks, bare.installs]).toEqual([undefined, expect.any(Number)]);
});

test('a link is found by its external id, its host and code, and its short URL, only in its own organization', async () => {
  const link = (await owner.call('POST', '/links', { app_id: apps[0], path: '/l', external_id: 'look/up' })).body;
  const [, host = ''] = /^https:\/\/([^/]+)/.exec(link.url) ?? [];
  const queries = [
    `app_id=${apps[0]}&external_id=${encodeURIComponent('look/up')}`,
    `host=${host.toUpperCase()}&short_code=${link.short_code}`,
    `url=${encodeURIComponent(`${link.url}?utm_source=x`)}`,
    `url=${encodeURIComponent(link.url.replace('https://', ''))}`,
  ];
  for (const query of queries) {
    expect((await owner.call('GET', `/links/lookup?${query}`)).body, query).toEqual(link);
    expect((await other.call('GET', `/links/lookup?${query}`)).status, query).toBe(query.startsWith('app') ? 403 : 404);
  }
  for (const [query, field] of [
    ['', 'external_id'],
    ['external_id=a', 'app_id'],
    ['short_code=a', 'host'],
    [`short_code=a&host=${host}&url=x`, 'external_id'],
    ['url=x', 'url'],
  ] as const) {
    const { status, body } = await owner.call('GET', `/links/lookup?${query}`);
    expect([status, body.error.details.field], query).toEqual([400, field]);
  }
  await owner.call('DELETE', `/links/${link.id}`);
  for (const query of queries) expect((await owner.call('GET', `/links/lookup?${query}`)).status).toBe(404);
});

test('a short code is reported as free, taken, deleted or reserved, but not to another organization', async () => {
  const check = (code: string, member = owner) =>
    member.call('GET', `/links/availability?app_id=${apps[0]}&short_code=${code}`);
  const free = { is_available: true, reason: null, link_id: null };
  expect((await check('free-code')).body).toEqual(free);
  const link = (await owner.call('POST', '/links', { app_id: apps[0], path: '/l', short_code: 'free-code' })).body;
  expect((await check('free-code')).body).toEqual({ is_available: false, reason: 'taken', link_id: link.id });
  expect((await check('Free-code')).body).toEqual(free);
  await api.db.execute(
    `INSERT INTO link_codes (organization_id, app_id, code, link_id, created_at)
     SELECT organization_id, app_id, 'printed', id, now() FROM links WHERE id = $1`,
    [link.id],
  );
  expect((await check('printed')).body).toMatchObject({ reason: 'taken', link_id: link.id });
  await owner.call('DELETE', `/links/${link.id}`);
  expect((await check('free-code')).body).toEqual({ is_available: false, reason: 'deleted', link_id: null });
  const refused = await owner.call('POST', '/links', { app_id: apps[0], path: '/l', short_code: 'free-code' });
  expect([refused.status, refused.body.error.details.field]).toEqual([400, 'short_code']);
  expect((await check('Robots')).body).toEqual({ is_available: false, reason: 'reserved', link_id: null });
  expect((await check('free-code', other)).status).toBe(403);
  expect((await owner.call('GET', '/links/availability?app_id=app_x&short_code=abc')).status).toBe(404);
  const short = await check('ab');
  expect([short.status, short.body.error.details.field]).toEqual([400, 'short_code']);
});
