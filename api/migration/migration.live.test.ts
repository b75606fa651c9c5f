import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { DAY_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { Tenancy } from '#common/stores/tenancy.ts';
import { unlearned } from './old-provider.ts';
import { keepUnlearned, UNLEARNED_CODES_MAX } from './unlearned-codes.ts';

let api: ApiForTest;
let owner: Member;
let stranger: Member;
const migration = { url: 'https://old.example/{code}', destination_hosts: ['WWW.example.com', 'www.example.com'] };

beforeAll(async () => {
  api = await apiForTest();
  [owner, stranger] = [await api.member(), await api.member()];
});
afterAll(async () => {
  expect(api.failures).toEqual([]);
  await api.stop();
});

const newApp = async (more: object = {}) => (await owner.call('POST', '/apps', { name: 'Move', ...more })).body;

test('the setting is stored in normalized form, replaced as a whole, and turned off by null', async () => {
  const app = await newApp({ settings: { migration } });
  const stored = { url: migration.url, via: null, destination_hosts: ['www.example.com'], upgrade_http: false };
  expect(app.settings.migration).toEqual(stored);
  const change = (setting: unknown) => owner.call('PATCH', `/apps/${app.id}`, { settings: { migration: setting } });
  const more = { ...migration, via: 'Edge.Old.example', upgrade_http: true };
  expect((await change(more)).body.settings.migration).toEqual({
    ...stored,
    via: 'edge.old.example',
    upgrade_http: true,
  });
  expect((await change(null)).body.settings.migration).toBeNull();
  expect((await owner.call('GET', `/apps/${app.id}`)).body.settings.migration).toBeNull();
});

test.each([
  ['http', { url: 'http://old.example/{code}' }],
  ['no place', { url: 'https://old.example/' }],
  ['two places', { url: 'https://old.example/{code}/{code}' }],
  ['place in the host', { url: 'https://{code}.example/' }],
  ['place in a fragment', { url: 'https://old.example/#{code}' }],
  ['place in the password', { url: 'https://a:{code}@old.example/' }],
  ['no hosts', { destination_hosts: [] }],
  ['a URL as host', { destination_hosts: ['https://www.example.com/'] }],
  ['an address as via', { via: '127.0.0.1' }],
  ['its own host', { url: 'https://own.localhost/{code}' }],
  ['its own host with a dot', { url: 'https://own.localhost./{code}' }],
  ['its own host as via', { via: 'own.localhost' }],
  ['another field', { token: 'x' }],
])('a setting that could not be asked is refused: %s', async (_, wrong) => {
  const given = { name: 'Move', host: 'own.localhost', settings: { migration: { ...migration, ...wrong } } };
  const { status, body } = await owner.call('POST', '/apps', given);
  expect([status, body.error?.code]).toEqual([400, 'VALIDATION_ERROR']);
});

test('the report counts taps on existing links, learned links and missing codes by day', async () => {
  const app = await newApp({ settings: { migration } });
  const today = new Date(Date.now()).toISOString().slice(0, 10);
  const nothing = { here: 0, learned: 0, not_here: 0 };
  const empty = await owner.call('GET', `/apps/${app.id}/migration`);
  expect(empty.body).toMatchObject({ is_on: true, taps: { ...nothing, share_here: null }, reasons: [], codes: [] });
  expect(empty.body.days).toHaveLength(7);
  expect(empty.body.days.at(-1)).toEqual({ day: today, ...nothing });

  const { body: link } = await owner.call('POST', '/links', {
    app_id: app.id,
    url: 'https://www.example.com/',
    short_code: 'summer',
  });
  await api.db.execute(`UPDATE links SET source = 'learned' WHERE id = $1`, [link.id]);
  for (let n = 0; n < 8; n++)
    await api.clickhouse.command(
      `INSERT INTO clicks (click_id, organization_id, app_id, link_id, time, is_bot)
       VALUES ({click_id:String}, {organization_id:String}, {app_id:String}, {link_id:String}, now64(3), false)`,
      { click_id: newId('clk', Date.now()), organization_id: owner.organization_id, app_id: app.id, link_id: link.id },
    );
  const orphan = `INSERT INTO orphan_visits VALUES ($1, $2, current_date, $3, $4, now())`;
  for (const [code, visits] of [
    ['sumer', 2],
    ['', 1],
    ['?foreign_host evil.example', 50],
  ])
    await api.db.execute(orphan, [owner.organization_id, app.id, code, visits]);
  const ask = { organization_id: owner.organization_id, app_id: app.id, host: app.host };
  const tenancy = new Tenancy(api.db);
  for (const code of ['sumer', 'sumer', 'summer', 'older'])
    await keepUnlearned(
      tenancy,
      { ...ask, code },
      unlearned('foreign_host', 'blog.example.com'),
      Date.now() - (code === 'older' ? 20 * DAY_MS : 0),
    );
  const { body } = await owner.call('GET', `/apps/${app.id}/migration?days=2`);
  expect(body).toMatchObject({
    taps: { here: 7, learned: 1, not_here: 3, share_here: 7 / 11 },
    reasons: [{ reason: 'foreign_host', asks: 3 }],
    codes: [{ short_code: 'sumer', reason: 'foreign_host', detail: 'blog.example.com', asks: 2, visits: 2 }],
    codes_total: 1,
  });
  expect(body.days).toHaveLength(2);
});

test('an app keeps a bounded number of codes that could not be learned', async () => {
  const app = await newApp();
  await api.db.execute(
    `INSERT INTO unlearned_codes SELECT $1, $2, 'old' || n, 'unknown', NULL, 1, now() - n * interval '1 second' FROM generate_series(1, $3) AS n`,
    [owner.organization_id, app.id, UNLEARNED_CODES_MAX + 10],
  );
  const ask = { organization_id: owner.organization_id, app_id: app.id, host: app.host, code: 'new' };
  await keepUnlearned(new Tenancy(api.db), ask, unlearned('unknown'), Date.now());
  const [kept] = await api.db.query(
    `SELECT count(*)::integer AS count, bool_or(short_code = 'new') AS has_new FROM unlearned_codes WHERE app_id = $1`,
    [app.id],
  );
  expect(kept).toEqual({ count: UNLEARNED_CODES_MAX, has_new: true });
});

test('other organizations and numbers of days beyond the retention are rejected', async () => {
  const app = await newApp();
  const path = `/apps/${app.id}/migration`;
  expect((await api.call('', 'GET', path)).status).toBe(401);
  expect((await stranger.call('GET', path)).status).toBe(403);
  expect((await owner.call('GET', `/apps/${newId('app', 1)}/migration`)).status).toBe(404);
  for (const days of ['0', '31', 'x']) expect((await owner.call('GET', `${path}?days=${days}`)).status).toBe(400);
});

test('the API accepts the example of docs/migrating.md', async () => {
  const section = readFileSync('docs/migrating.md', 'utf8').split('## Moving by traffic')[1] ?? '';
  const example = /```json\n([\s\S]*?)```/.exec(section)?.[1] ?? '';
  const { id } = await newApp();
  const { status, body } = await owner.call('PATCH', `/apps/${id}`, example);
  expect([status, body.settings.migration]).toMatchObject([200, { url: 'https://old.example.com/{code}', via: null }]);
});
