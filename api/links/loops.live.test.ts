import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';

let api: ApiForTest;
let owner: Member;
let app: { id: string; host: string };
let other: { id: string; host: string };
const web = 'https://www.example.com/';

beforeAll(async () => {
  api = await apiForTest();
});
beforeEach(async () => {
  owner = await api.member();
  app = (await owner.call('POST', '/apps', { name: 'Loops' })).body;
  other = (await owner.call('POST', '/apps', { name: 'Others' })).body;
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

const at = (code: string, of = app) => `https://${of.host}/${code}`;

async function create(short_code: string, fields: object, of = app) {
  const { status, body } = await owner.call('POST', '/links', { app_id: of.id, path: '/x', short_code, ...fields });
  return { status, id: String(body.id), field: body.error?.details.field ?? null, text: body.error?.message ?? '' };
}

async function made(code: string, fields: object, of = app): Promise<string> {
  const { status, id, text } = await create(code, fields, of);
  expect([text, status]).toEqual(['', 201]);
  return id;
}

async function change(id: string, changes: object) {
  const { status, body } = await owner.call('PATCH', `/links/${id}`, changes);
  return [status, body.error?.details.field ?? null];
}

test.each<[string, (own: string) => object, string]>([
  ['its url', (url) => ({ url }), 'url'],
  ['its fallback_url', (url) => ({ fallback_url: url }), 'fallback_url'],
  ['its ios_url', (url) => ({ ios_url: url, fallback_url: web }), 'ios_url'],
  ['its android_url', (url) => ({ android_url: url, fallback_url: web }), 'android_url'],
  ['a rule', (url) => ({ rules: [{ url: web }, { url }].reverse() }), 'rules[0].url'],
  ['a rule with a condition', (url) => ({ rules: [{ country: ['DE'], url }], url: web }), 'rules[0].url'],
  [
    'a variant',
    (url) => ({
      rules: [
        {
          variants: [
            { url: web, percent: 50 },
            { url, percent: 10 },
          ],
        },
      ],
    }),
    'rules[0].variants[1].url',
  ],
  ['its expired_url', (url) => ({ url: web, expires_at: '2020-01-01T00:00:00Z', expired_url: url }), 'expired_url'],
  ['its expired_url after max_clicks', (url) => ({ url: web, max_clicks: 5, expired_url: url }), 'expired_url'],
  ['a query and a fragment', (url) => ({ fallback_url: `${url}?a=1#b` }), 'fallback_url'],
  ['a slash at its end', (url) => ({ fallback_url: `${url}/` }), 'fallback_url'],
  ['a port', (url) => ({ fallback_url: url.replace(/(?<=\w)\/self/, ':8443/self') }), 'fallback_url'],
  ['capitals in its host', (url) => ({ fallback_url: url.replace(app.host, app.host.toUpperCase()) }), 'fallback_url'],
  ['an escaped letter', (url) => ({ fallback_url: url.replace('self', '%73elf') }), 'fallback_url'],
])('a link that leads to itself by %s is refused, and the field is named', async (_, fields, field) => {
  expect(await create('self', fields(at('self')))).toMatchObject({ status: 400, field });
});

test('a change that closes a circle of two, three or more links, also of several apps, is refused', async () => {
  const one = await made('one', { url: web });
  const two = await made('two', { url: at('one') }, other);
  await made('three', { url: at('two', other) });
  expect(await change(one, { fallback_url: at('two', other) })).toEqual([400, 'fallback_url']);
  expect(await change(one, { rules: [{ language: ['de'], url: at('three') }] })).toEqual([400, 'rules[0].url']);
  expect(await change(one, { short_code: 'uno', fallback_url: at('three') })).toEqual([200, null]);
  expect(await change(two, { fallback_url: at('uno') })).toEqual([400, 'fallback_url']);
  expect(await change(one, { short_code: 'one' })).toEqual([400, 'fallback_url']);
});

test('a chain that is longer than the redirector follows is refused', async () => {
  await made('c-0', { url: web });
  for (let n = 1; n <= 10; n++) await made(`c-${n}`, { url: at(`c-${n - 1}`) });
  expect(await create('c-11', { url: at('c-10') })).toMatchObject({
    ...{ status: 400, field: 'url', text: expect.stringContaining('more than 10') },
  });
});

test('links that send different visitors to each other are no circle', async () => {
  await made('german', { fallback_url: web });
  await made('english', { fallback_url: web, rules: [{ language: ['de'], url: at('german') }] });
  const german = await owner.call('GET', `/links?app_id=${app.id}&search=german`);
  const [{ id }] = german.body.data;
  expect(await change(id, { rules: [{ language: ['en', 'fr'], url: at('english') }] })).toEqual([200, null]);
  expect(await change(id, { rules: [{ language: ['de-AT'], url: at('english') }] })).toEqual([400, 'rules[0].url']);
  await owner.call('PATCH', `/apps/${app.id}`, {
    ios: { bundle_id: 'com.example.a', team_id: 'TEAM123456', app_store_id: '123' },
  });
  await made('desktop', { ios_url: at('phone'), android_url: web, fallback_url: web });
  await made('phone', { fallback_url: at('desktop'), android_url: web });
});

test('the fallback of an app cannot lead to its own root, or to a link that falls back to it', async () => {
  const set = async (fallback_url: string | null, of = app) => {
    const { status, body } = await owner.call('PATCH', `/apps/${of.id}`, { fallback_url });
    return [status, body.error?.details.field ?? null];
  };
  const refused = [400, 'fallback_url'];
  expect(await set(`https://${app.host}`)).toEqual(refused);
  expect(await set(`https://${app.host}/?a=1`)).toEqual(refused);
  await made('bare', {});
  expect(await set(at('bare'))).toEqual(refused);
  await made('full', { url: web });
  expect(await set(at('full'))).toEqual([200, null]);
  expect(await set(at('full'), other)).toEqual([200, null]);
  await made('round', { url: `https://${other.host}/` });
  expect(await change(await made('half', { url: web }), { fallback_url: null })).toEqual([200, null]);
  const [full] = (await owner.call('GET', `/links?app_id=${app.id}&search=full`)).body.data;
  expect(await change(full.id, { fallback_url: at('round') })).toEqual(refused);
  expect(await change(full.id, { fallback_url: null })).toEqual(refused);
  const own = 'own-root.example.com';
  const created = await owner.call('POST', '/apps', { name: 'New', host: own, fallback_url: `https://${own}/` });
  expect([created.status, created.body.error?.details.field]).toEqual(refused);
});

test('bulk requests and imports refuse the links of a circle, and take the others', async () => {
  const links = [
    { app_id: app.id, short_code: 'bulk-a', url: at('bulk-b') },
    { app_id: app.id, short_code: 'bulk-b', url: at('bulk-a') },
    { app_id: app.id, short_code: 'bulk-c', url: web },
    { app_id: app.id, short_code: 'bulk-d', url: at('bulk-c') },
  ];
  const { body } = await owner.call('POST', '/links/bulk', { links });
  expect(body.results.map((one: { status: string }) => one.status)).toEqual(['failed', 'failed', 'created', 'created']);
  expect(body.results[0].error.details.field).toBe('url');
  const changes = { fallback_url: at('bulk-d') };
  const all = await owner.call('PATCH', '/links/bulk', { filter: { app_id: app.id }, changes });
  expect([all.status, all.body.error?.details.field]).toEqual([400, 'changes.fallback_url']);
  const kept = await owner.call('GET', `/links/${body.results[2].link.id}`);
  expect(kept.body.fallback_url).toBe(web);
  const external = await owner.call('PUT', `/links/by-external-id/${app.id}/e-1`, { url: at('bulk-d') });
  expect(external.status).toBe(201);
  const upsert = await owner.call('PUT', `/links/by-external-id/${app.id}/e-2`, {
    short_code: 'e-2',
    url: at('e-2'),
  });
  expect([upsert.status, upsert.body.error?.details.field]).toEqual([400, 'url']);
});
