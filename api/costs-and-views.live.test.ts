import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from './testing/running-api.ts';

let api: ApiForTest;
let owner: Member;
let viewer: Member;
let foreign: Member;

beforeAll(async () => {
  api = await apiForTest();
  owner = await api.member();
  viewer = await api.member('viewer', owner.organization_id);
  foreign = await api.member();
});
afterAll(() => api.stop());

const cost = { campaign: 'spring', day: '2026-11-20', amount: '12.5', currency: 'EUR' };

test('an upload of costs can be repeated, replaces earlier costs, and removes costs that it sets to 0', async () => {
  const others = [
    { ...cost, currency: 'USD' },
    { ...cost, day: '2026-11-21' },
    { ...cost, campaign: "o'brien, \\ & co" },
  ];
  for (let n = 0; n < 2; n++) {
    expect(await owner.call('POST', '/costs', { costs: [cost, ...others] })).toMatchObject({
      status: 200,
      body: { stored: 4 },
    });
  }
  const changed = await owner.call('POST', '/costs', {
    costs: [
      { ...cost, amount: '1' },
      { ...cost, amount: '99999999999999999999.000000001' },
      { ...cost, currency: 'USD', amount: '0.00' },
    ],
  });
  expect(changed.status, JSON.stringify(changed.body)).toBe(200);
  const listed = await viewer.call('GET', '/costs?start=2026-11-20&end=2026-11-20&campaign=spring');
  expect(listed.body).toEqual({
    data: [{ organization_id: owner.organization_id, ...cost, amount: '99999999999999999999.000000001' }],
    pagination: { total: 1, limit: 50, offset: 0, has_more: false },
  });
  expect((await viewer.call('GET', '/costs')).body.pagination.total).toBe(3);
  expect((await foreign.call('GET', '/costs')).body.pagination.total).toBe(0);
});

test('costs of days past the retention of statistics are not stored', async () => {
  await owner.call('POST', '/costs', { costs: [{ ...cost, day: '2001-01-31', campaign: 'old' }] });
  expect((await owner.call('GET', '/costs?campaign=old')).body.data).toEqual([]);
});

test.each(['start', 'end'])('a list of costs with a day in no calendar is a 400: %s', async (name) => {
  const answer = await owner.call('GET', `/costs?${name}=0000-01-01`);
  expect([answer.status, answer.body.error?.details.field]).toEqual([400, name]);
});

test.each([
  [{ ...cost, day: '2026-02-30' }, 'costs[1].day'],
  [{ ...cost, day: '0000-01-01' }, 'costs[1].day'],
  [{ ...cost, amount: '-1' }, 'costs[1].amount'],
  [{ ...cost, amount: '1.0000000001' }, 'costs[1].amount'],
  [{ ...cost, amount: 'a lot' }, 'costs[1].amount'],
  [{ ...cost, amount: 1 }, 'costs[1].amount'],
  [{ ...cost, currency: 'EUX' }, 'costs[1].currency'],
  [{ ...cost, currency: 'eur' }, 'costs[1].currency'],
  [{ ...cost, campaign: '' }, 'costs[1].campaign'],
  [{ ...cost, note: 'x' }, 'costs[1].note'],
])('a wrong cost is a 400 that names the field, and none of the request is stored: %o', async (wrong, field) => {
  const answer = await owner.call('POST', '/costs', { costs: [{ ...cost, campaign: 'whole' }, wrong] });
  expect([answer.status, answer.body.error?.details.field]).toEqual([400, field]);
  expect((await owner.call('GET', '/costs?campaign=whole')).body.data).toEqual([]);
});

test('a viewer and another organization can change neither costs nor views, and a key needs the scope and all apps', async () => {
  const view = (await owner.call('POST', '/views', { name: 'Mine', query: { interval: '7d' } })).body;
  const asOwners = { organization_id: owner.organization_id };
  for (const [method, path, body] of [
    ['POST', '/costs', { ...asOwners, costs: [cost] }],
    ['POST', '/views', { ...asOwners, name: 'Theirs', query: {} }],
    ['PATCH', `/views/${view.id}`, { name: 'Theirs' }],
    ['DELETE', `/views/${view.id}`, undefined],
  ] as const) {
    for (const caller of [viewer, foreign]) {
      expect((await caller.call(method, path, body)).status, `${method} ${path}`).toBe(403);
    }
  }
  expect((await foreign.call('GET', `/views/${view.id}`)).status).toBe(403);
  expect((await foreign.call('GET', `/views?organization_id=${owner.organization_id}`)).status).toBe(403);
  expect((await viewer.call('GET', `/views/${view.id}`)).body).toEqual(view);
  const app = (await owner.call('POST', '/apps', { name: 'App' })).body;
  const keyWith = async (more: object) => (await owner.call('POST', '/keys', { name: 'k', ...more })).body.key;
  const reading = await keyWith({ scopes: ['analytics:read'] });
  const writing = await keyWith({ scopes: ['analytics:write'] });
  const limited = await keyWith({ scopes: ['analytics:write'], app_ids: [app.id] });
  const upload = { costs: [{ ...cost, campaign: 'by a key' }] };
  expect((await api.call(reading, 'POST', '/costs', upload)).status).toBe(403);
  expect((await api.call(limited, 'POST', '/costs', upload)).status).toBe(403);
  expect((await api.call(limited, 'GET', '/costs')).status).toBe(403);
  expect((await api.call(writing, 'POST', '/costs', upload)).status).toBe(200);
  expect((await api.call(reading, 'GET', '/costs?campaign=by a key')).body.pagination.total).toBe(1);
  for (const [method, path, body] of [
    ['POST', '/views', { name: 'Of some apps', query: {} }],
    ['GET', '/views', undefined],
    ['GET', `/views/${view.id}`, undefined],
    ['PATCH', `/views/${view.id}`, { name: 'Of some apps' }],
    ['DELETE', `/views/${view.id}`, undefined],
  ] as const)
    expect((await api.call(limited, method, path, body)).status, `${method} ${path}`).toBe(403);
  const made = await api.call(writing, 'POST', '/views', { name: 'By a key', query: {} });
  expect([made.status, made.body.created_by]).toEqual([201, null]);
});

test('a view is listed by name, read, changed in part, and deleted', async () => {
  const member = await api.member();
  const query = { interval: '90d', campaign: 'spring', breakdowns: 'link_id,browser' };
  const names = ['Beta', 'Alpha'];
  const made = [];
  for (const name of names) made.push((await member.call('POST', '/views', { name: ` ${name} `, query })).body);
  expect(made[0]).toMatchObject({ name: 'Beta', query, created_by: member.user_id });
  const listed = (await member.call('GET', '/views')).body;
  expect(listed.data.map(({ name }: { name: string }) => name)).toEqual(['Alpha', 'Beta']);
  const path = `/views/${made[0].id}`;
  const changed = await member.call('PATCH', path, { query: { timezone: 'Europe/Berlin' } });
  expect(changed.body).toMatchObject({ name: 'Beta', query: { timezone: 'Europe/Berlin' } });
  expect((await member.call('GET', path)).body).toEqual(changed.body);
  expect((await member.call('DELETE', path)).body).toEqual({ id: made[0].id, deleted: true });
  for (const method of ['GET', 'DELETE']) expect((await member.call(method, path)).status).toBe(404);
  expect((await member.call('PATCH', path, { name: 'x' })).status).toBe(404);
});

test.each([
  [{ name: ' ', query: {} }, 'name'],
  [{ name: 'x' }, 'query'],
  [{ name: 'x', query: { 'a b': '1' } }, 'query'],
  [{ name: 'x', query: { limit: 1 } }, 'query.limit'],
  [
    {
      name: 'x',
      query: Object.fromEntries(
        [...'abcdefghijklmnopqrstu'].flatMap((a) => [
          [a, ''],
          [`${a}_`, ''],
        ]),
      ),
    },
    'query',
  ],
])('a view that is not valid is a 400: %o', async (body, field) => {
  const answer = await owner.call('POST', '/views', body);
  expect(answer.status).toBe(400);
  expect(answer.body.error.details.field).toContain(field);
});

test('an organization has at most 500 views', async () => {
  const member = await api.member();
  await api.db.execute(
    `INSERT INTO saved_views (id, organization_id, name, query, created_at, updated_at)
     SELECT 'viw_' || n, $1, 'v', '{}', now(), now() FROM generate_series(1, 500) AS n`,
    [member.organization_id],
  );
  const answer = await member.call('POST', '/views', { name: 'one more', query: {} });
  expect([answer.status, answer.body.error?.details.field]).toEqual([400, 'body']);
});

test('the API may read costs and exchange rates, and changes no rate', async () => {
  await api.db.execute(
    "INSERT INTO exchange_rates (day, currency, rate) VALUES (now()::date, 'EUR', 1) ON CONFLICT DO NOTHING",
  );
  for (const path of ['overview', 'ltv', 'page', 'breakdown?by=campaign']) {
    const { status, body } = await owner.call('GET', `/analytics/${path}${path.includes('?') ? '&' : '?'}currency=EUR`);
    expect([status, body.conversion], path).toEqual([200, { currency: 'EUR', rates: [], missing: [] }]);
  }
  const rights =
    "SELECT has_table_privilege('signpost_api_process', 'exchange_rates', 'INSERT, UPDATE, DELETE') AS can";
  expect(await api.db.query(rights)).toEqual([{ can: false }]);
});
