import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { verifyHost } from '#api/admin/hosts.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { ApiKeys, isApiKey } from '#common/api-key.ts';
import { systemClock } from '#common/clock.ts';
import { parseSecretKeys } from '#common/encryption.ts';
import { newId } from '#common/ids.ts';
import { AppSnapshots, readAppByKey } from '#common/links/app-snapshot.ts';

let api: ApiForTest;
let owner: Member;
let stranger: Member;
let keys: ApiKeys;
let snapshots: AppSnapshots;

beforeAll(async () => {
  api = await apiForTest();
  [owner, stranger] = await Promise.all([api.member(), api.member()]);
  keys = new ApiKeys(parseSecretKeys(api.secretKey));
  snapshots = new AppSnapshots(api.redis);
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

const defaults = {
  attribution_window_hours: 168,
  probabilistic_window_hours: 6,
  min_confidence: 0.6,
  privacy_mode: 'anonymize_ip',
  conversion_events: [],
  tap_page: 'off',
  query_merge: 'destination',
  sdk_links: true,
  codes_ignore_case: false,
  firebase_links: null,
  migration: null,
};
const fingerprint = Array.from({ length: 32 }, () => 'AB').join(':');
const everything = {
  name: 'Everything',
  host: 'go.everything.example',
  ios: { bundle_id: 'com.example.app', team_id: 'ABCDE12345', app_store_id: '123456', uri_scheme: 'myapp' },
  android: { package_name: 'com.example.app', sha256_cert_fingerprints: [fingerprint], uri_scheme: 'myapp' },
  fallback_url: 'https://www.example.com/app',
  allowed_destination_hosts: ['www.example.com', 'example.org'],
  pages: { not_found: '<h1>Nichts</h1>', expired: null },
  settings: {
    attribution_window_hours: 1,
    probabilistic_window_hours: 0,
    min_confidence: 1,
    privacy_mode: 'no_ip',
    conversion_events: ['purchase'],
    tap_page: 'mobile',
    query_merge: 'visit',
    sdk_links: false,
    codes_ignore_case: true,
    firebase_links: { hosts: ['www.example.com'], prefixes: ['/promo'] },
    migration: {
      url: 'https://old.example/{code}',
      via: null,
      destination_hosts: ['www.example.com'],
      upgrade_http: false,
    },
  },
};

async function newApp(fields: object = {}, member = owner) {
  const reply = await member.call('POST', '/apps', { name: 'App', ...fields });
  expect(reply.body.error).toBeUndefined();
  expect(reply.status).toBe(201);
  return reply.body;
}

test('an app is returned with every field and its key, and reads back the same', async () => {
  const app = await newApp(everything);
  expect(app).toMatchObject({ ...everything, organization_id: owner.organization_id });
  expect(app.id).toMatch(/^app_/);
  expect(isApiKey(app.api_key)).toBe(true);
  const read = await owner.call('GET', `/apps/${app.id}`);
  expect([read.status, read.body]).toEqual([200, app]);
});

test('the setting for long links is replaced as a whole, and invalid hosts and paths are rejected', async () => {
  const app = await newApp({ name: 'Long links' });
  const change = async (firebase_links: unknown) =>
    (await owner.call('PATCH', `/apps/${app.id}`, { settings: { firebase_links } })).body;
  expect((await change({ hosts: ['WWW.Example.com', 'www.example.com'] })).settings.firebase_links).toEqual({
    ...{ hosts: ['www.example.com'], prefixes: [] },
  });
  const { settings } = await change({ hosts: ['example.com'], prefixes: ['/promo'] });
  expect(settings.firebase_links).toEqual({ hosts: ['example.com'], prefixes: ['/promo'] });
  for (const [value, field] of [
    [{ hosts: [] }, 'hosts'],
    [{ hosts: ['https://example.com'] }, 'hosts[0]'],
    [{ hosts: ['example.com'], prefixes: ['/promo/'] }, 'prefixes[0]'],
    [{ hosts: ['example.com'], prefixes: ['/.well-known/x'] }, 'prefixes[0]'],
    [{ prefixes: ['/promo'] }, 'hosts'],
    [{ hosts: ['example.com'], others: 1 }, 'others'],
  ] as const)
    expect((await change(value)).error.details.field).toBe(`settings.firebase_links.${field}`);
  expect((await change(null)).settings.firebase_links).toBeNull();
});

test('pages are changed one by one, omitted from lists, and rejected above 16 KiB', async () => {
  const app = await newApp({ name: 'Paged', pages: { not_found: '<p>lost</p>' } });
  const change = async (pages: unknown) => owner.call('PATCH', `/apps/${app.id}`, { pages });
  expect((await change({ expired: '<p>over</p>' })).body.pages).toEqual({
    ...{ not_found: '<p>lost</p>', expired: '<p>over</p>' },
  });
  const { body: list } = await owner.call('GET', '/apps');
  expect(list.data.some((one: object) => 'pages' in one)).toBe(false);
  const long = await change({ expired: 'é'.repeat(8_193) });
  expect([long.status, long.body.error.details.field]).toEqual([400, 'pages.expired']);
  expect((await change({ gone: '<p></p>' })).body.error.details.field).toBe('pages.gone');
  expect((await change({ not_found: null, expired: null })).body.pages).toBeNull();
});

test('owners and members read the full key of an app, a viewer reads its preview', async () => {
  const app = await newApp();
  const [member, viewer] = await Promise.all([
    api.member('member', owner.organization_id),
    api.member('viewer', owner.organization_id),
  ]);
  for (const reader of [owner, member]) {
    const { body } = await reader.call('GET', `/apps/${app.id}`);
    expect([body.api_key, body.api_key_preview]).toEqual([app.api_key, undefined]);
  }
  const shown = await viewer.call('GET', `/apps/${app.id}`);
  expect(shown.status).toBe(200);
  expect(shown.body.api_key).toBeUndefined();
  expect(shown.body.api_key_preview).toMatch(/^lk_.{4}….{4}$/);
  expect(JSON.stringify(shown.body)).not.toContain(app.api_key.slice(8, 38));
});

test('a user who owns one organization and views another reads full keys of the first only', async () => {
  const [mine, theirs] = [await newApp({}, owner), await newApp({}, stranger)];
  const both = await api.member('owner', owner.organization_id);
  await api.db.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'viewer')`, [
    both.user_id,
    stranger.organization_id,
  ]);
  expect((await both.call('GET', `/apps/${mine.id}`)).body.api_key).toBe(mine.api_key);
  expect((await both.call('GET', `/apps/${theirs.id}`)).body.api_key).toBeUndefined();
});

test('an app created with only a name gets a host under the domain, and the defaults', async () => {
  const app = await newApp({ name: 'Café  Münster!' });
  expect(app).toMatchObject({ host: 'cafe-munster.localhost', ios: null, android: null, fallback_url: null });
  expect(app).toMatchObject({ allowed_destination_hosts: [], settings: defaults });
  expect((await newApp({ name: 'Café Münster' })).host).toMatch(/^cafe-munster-\d+\.localhost$/);
  expect((await newApp({ name: '日本' })).host).toMatch(/^app(-\d+)?\.localhost$/);
});

test('hosts are stored in lower case and ASCII', async () => {
  expect((await newApp({ host: 'GO.Bücher.Example' })).host).toBe('go.xn--bcher-kva.example');
});

test('omitted parts of ios, android and settings are null or their default', async () => {
  const app = await newApp({
    ios: { bundle_id: 'a.b' },
    android: { package_name: 'a.b', sha256_cert_fingerprints: [fingerprint.toLowerCase()] },
    settings: { min_confidence: 0.5 },
  });
  expect(app.ios).toEqual({ bundle_id: 'a.b', team_id: null, app_store_id: null, uri_scheme: null });
  expect(app.android).toEqual({ package_name: 'a.b', sha256_cert_fingerprints: [fingerprint], uri_scheme: null });
  expect(app.settings).toEqual({ ...defaults, min_confidence: 0.5 });
});

const ios = (part: object) => ({ ios: { bundle_id: 'a.b', ...part } });
const android = (part: object) => ({ android: { package_name: 'a.b', ...part } });
const wrong: [string, Record<string, unknown>, string][] = [
  ['an empty name', { name: '' }, 'name'],
  ['a name that shows nothing', { name: '\u2060 \u2800' }, 'name'],
  ['a blank name', { name: '   ' }, 'name'],
  ['a name of 101', { name: 'x'.repeat(101) }, 'name'],
  ['null as name', { name: null }, 'name'],
  ['a host with a scheme', { host: 'https://go.example.com' }, 'host'],
  ['a host with a port', { host: 'go.example.com:8443' }, 'host'],
  ['a host with a path', { host: 'go.example.com/x' }, 'host'],
  ['a host of one label', { host: 'localhost' }, 'host'],
  ['an IPv4 address', { host: '127.0.0.1' }, 'host'],
  ['an IPv4 address in disguise', { host: '0x7f.1' }, 'host'],
  ['an IPv6 address', { host: '[::1]' }, 'host'],
  ['a host with a query', { host: 'go.example.com?x' }, 'host'],
  ['a host with a user', { host: 'a@go.example.com' }, 'host'],
  ['a host with an escape', { host: 'go.ex%61mple.com' }, 'host'],
  ['a host with a tab inside', { host: 'go.exa\tmple.com' }, 'host'],
  ['a host with a line break', { host: 'go.example.com\r\nx: y' }, 'host'],
  ['null as host', { host: null }, 'host'],
  ['ios without a bundle', { ios: { team_id: 'ABCDE12345' } }, 'ios.bundle_id'],
  ['ios with a bad bundle', { ios: { bundle_id: 'a b' } }, 'ios.bundle_id'],
  ['ios with a bad team', ios({ team_id: 'abc' }), 'ios.team_id'],
  ['ios with a bad store id', ios({ app_store_id: 'id12' }), 'ios.app_store_id'],
  ['ios with javascript as scheme', ios({ uri_scheme: 'javascript' }), 'ios.uri_scheme'],
  ['ios with a scheme in capitals', ios({ uri_scheme: 'JavaScript' }), 'ios.uri_scheme'],
  ['ios with ://', ios({ uri_scheme: 'myapp://' }), 'ios.uri_scheme'],
  ['ios with an unknown field', ios({ bundle: 'x' }), 'ios.bundle'],
  ['ios that is a text', { ios: 'com.example' }, 'ios'],
  ['android without a package', { android: { uri_scheme: 'myapp' } }, 'android.package_name'],
  ['android with a bad package', { android: { package_name: 'example' } }, 'android.package_name'],
  [
    'android with a bad fingerprint',
    android({ sha256_cert_fingerprints: ['AB:CD'] }),
    'android.sha256_cert_fingerprints[0]',
  ],
  ['an http fallback', { fallback_url: 'http://example.com' }, 'fallback_url'],
  [
    'a destination host with a scheme',
    { allowed_destination_hosts: ['a.example', 'https://b.example'] },
    'allowed_destination_hosts[1]',
  ],
  ['a window of 0', { settings: { attribution_window_hours: 0 } }, 'settings.attribution_window_hours'],
  ['a window of 2161', { settings: { attribution_window_hours: 2161 } }, 'settings.attribution_window_hours'],
  ['half an hour', { settings: { attribution_window_hours: 1.5 } }, 'settings.attribution_window_hours'],
  [
    'a probabilistic window of 73',
    { settings: { probabilistic_window_hours: 73 } },
    'settings.probabilistic_window_hours',
  ],
  ['a confidence over 1', { settings: { min_confidence: 1.1 } }, 'settings.min_confidence'],
  ['an unknown privacy mode', { settings: { privacy_mode: 'none' } }, 'settings.privacy_mode'],
  [
    '21 conversion events',
    { settings: { conversion_events: Array.from({ length: 21 }, (_, n) => `e${n}`) } },
    'settings.conversion_events',
  ],
  ['a tap page on Android alone', { settings: { tap_page: 'android' } }, 'settings.tap_page'],
  ['a query_merge of neither', { settings: { query_merge: 'both' } }, 'settings.query_merge'],
  ['a tap page that is true', { settings: { tap_page: true } }, 'settings.tap_page'],
  ['an unknown setting', { settings: { colour: 'red' } }, 'settings.colour'],
  ['an unknown field', { api_key: 'lk_x' }, 'api_key'],
];
test.each(wrong)('%s is a 400 that names the field, on creation and on update', async (_, fields, field) => {
  const created = await owner.call('POST', '/apps', { name: 'Wrong', ...fields });
  expect([created.status, created.body.error?.details?.field]).toEqual([400, field]);
  const app = await newApp();
  const updated = await owner.call('PATCH', `/apps/${app.id}`, fields);
  expect([updated.status, updated.body.error?.details?.field]).toEqual([400, field]);
});

test.each([
  ['{', 'body'],
  ['[]', 'body'],
  ['', 'body'],
  ['{"name":"x"} x', 'body'],
  ['{}', 'name'],
])('the body %j is a 400 on %s', async (body, field) => {
  const reply = await owner.call('POST', '/apps', body);
  expect([reply.status, reply.body.error.details.field]).toEqual([400, field]);
});

test('errors that the schema cannot express are reported together with the others', async () => {
  const { status, body } = await owner.call('POST', '/apps', {
    name: '',
    fallback_url: 'ftp://x',
    ios: { x: 1 },
    host: 'no',
  });
  const fields = body.error.details.errors.map((fault: { field: string }) => fault.field).sort();
  expect([status, fields]).toEqual([400, ['fallback_url', 'host', 'ios.bundle_id', 'ios.x', 'name']]);
});

test('a rotation accepts no fields, and a rejected one rotates nothing', async () => {
  const app = await newApp();
  const reply = await owner.call('POST', `/apps/${app.id}/rotate-key`, { grace_seconds: 60 });
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'grace_seconds']);
  expect((await owner.call('GET', `/apps/${app.id}`)).body.api_key).toBe(app.api_key);
  expect((await owner.call('POST', `/apps/${app.id}/rotate-key`, {})).status).toBe(200);
});

test('an update changes the given fields, clears null ones, and leaves the rest, including nested fields', async () => {
  const app = await newApp({ ...everything, host: 'go.update.example' });
  const changed = await owner.call('PATCH', `/apps/${app.id}`, {
    name: 'Renamed',
    ios: { team_id: null, app_store_id: '99' },
    android: null,
    fallback_url: null,
    settings: { privacy_mode: null, min_confidence: 0.7 },
  });
  expect(changed.status).toBe(200);
  const { updated_at: _, ...rest } = changed.body;
  const { updated_at: __, ...before } = app;
  expect(rest).toEqual({
    ...before,
    name: 'Renamed',
    ios: { ...everything.ios, team_id: null, app_store_id: '99' },
    android: null,
    fallback_url: null,
    settings: { ...everything.settings, privacy_mode: 'anonymize_ip', min_confidence: 0.7 },
  });
  expect((await owner.call('GET', `/apps/${app.id}`)).body).toEqual(changed.body);
  const reset = await owner.call('PATCH', `/apps/${app.id}`, { settings: null, allowed_destination_hosts: null });
  expect(reset.body).toMatchObject({ settings: defaults, allowed_destination_hosts: [] });
  expect((await owner.call('PATCH', `/apps/${app.id}`, {})).status).toBe(400);
});

test('a host belongs to one app; after the app is deleted it stays with its organization', async () => {
  const app = await newApp({ host: 'one.example.com' });
  await verifyHost({ db: api.db, clock: systemClock }, app.host);
  const other = await newApp({}, stranger);
  const taken = async (member: Member) => {
    const created = await member.call('POST', '/apps', { name: 'x', host: 'ONE.example.com' });
    expect([created.status, created.body.error?.details?.field]).toEqual([400, 'host']);
  };
  await taken(owner);
  await taken(stranger);
  const moved = await stranger.call('PATCH', `/apps/${other.id}`, { host: 'one.example.com' });
  expect([moved.status, moved.body.error.details.field]).toEqual([400, 'host']);
  await owner.call('DELETE', `/apps/${app.id}`);
  await taken(stranger);
  await newApp({ host: 'one.example.com' });
});

test('a host that an app gave up stays reserved for its organization, so that printed links never lead to someone else', async () => {
  const app = await newApp({ host: 'left.example.com' });
  await verifyHost({ db: api.db, clock: systemClock }, app.host);
  expect((await owner.call('PATCH', `/apps/${app.id}`, { host: 'right.example.com' })).status).toBe(200);
  const created = await stranger.call('POST', '/apps', { name: 'x', host: 'left.example.com' });
  expect([created.status, created.body.error?.details?.field]).toEqual([400, 'host']);
  const other = await newApp({}, stranger);
  const moved = await stranger.call('PATCH', `/apps/${other.id}`, { host: 'left.example.com' });
  expect([moved.status, moved.body.error?.details?.field]).toEqual([400, 'host']);
  expect((await owner.call('PATCH', `/apps/${app.id}`, { host: 'left.example.com' })).status).toBe(200);
});

test('a new host appears in the links immediately', async () => {
  const app = await newApp();
  const link = (await owner.call('POST', '/links', { app_id: app.id, path: '/x', short_code: 'moved' })).body;
  await owner.call('PATCH', `/apps/${app.id}`, { host: 'moved.example.com' });
  expect((await owner.call('GET', `/links/${link.id}`)).body.url).toBe('https://moved.example.com/moved');
});

test('lists show a preview of the key, have pages, and can be filtered by organization', async () => {
  const member = await api.member();
  const made = [];
  for (let n = 0; n < 3; n++) made.unshift((await newApp({ name: `L${n}` }, member)).id);
  const { body } = await member.call('GET', '/apps?limit=2');
  expect(body.data.map((app: { id: string }) => app.id)).toEqual(made.slice(0, 2));
  expect(body.pagination).toEqual({ total: 3, limit: 2, offset: 0, has_more: true });
  expect(body.data[0].api_key).toBeUndefined();
  expect(body.data[0].api_key_preview).toMatch(/^lk_.{4}….{4}$/);
  const mine = await member.call('GET', `/apps?organization_id=${member.organization_id}&offset=2`);
  expect(mine.body.data.map((app: { id: string }) => app.id)).toEqual(made.slice(2));
  expect((await member.call('GET', `/apps?organization_id=${owner.organization_id}`)).status).toBe(403);
  expect((await member.call('GET', `/apps?organization_id=${newId('org', Date.now())}`)).status).toBe(404);
  expect((await member.call('GET', '/apps?name=x')).body.error.details.field).toBe('name');
});

test('a user of two organizations must name one; another organization gets 403, an unknown one 404', async () => {
  const both = await api.member('member', owner.organization_id);
  await api.db.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'viewer')`, [
    both.user_id,
    stranger.organization_id,
  ]);
  const unsaid = await both.call('POST', '/apps', { name: 'x' });
  expect([unsaid.status, unsaid.body.error.details.field]).toEqual([400, 'organization_id']);
  expect((await newApp({ organization_id: owner.organization_id }, both)).organization_id).toBe(owner.organization_id);
  const asViewer = { name: 'x', organization_id: stranger.organization_id };
  expect((await both.call('POST', '/apps', asViewer)).status).toBe(403);
  expect((await owner.call('POST', '/apps', asViewer)).status).toBe(403);
  expect((await owner.call('POST', '/apps', { name: 'x', organization_id: newId('org', Date.now()) })).status).toBe(
    404,
  );
});

test('another organization gets 403, an unknown id 404, a viewer may only read', async () => {
  const app = await newApp();
  const viewer = await api.member('viewer', owner.organization_id);
  expect((await viewer.call('GET', `/apps/${app.id}`)).status).toBe(200);
  const requests: [string, string, unknown?][] = [
    ['GET', ''],
    ['PATCH', '', { name: 'x' }],
    ['DELETE', ''],
    ['POST', '/rotate-key'],
  ];
  for (const [method, suffix, body] of requests) {
    expect((await stranger.call(method, `/apps/${app.id}${suffix}`, body)).status, method).toBe(403);
    if (method !== 'GET')
      expect((await viewer.call(method, `/apps/${app.id}${suffix}`, body)).status, method).toBe(403);
    for (const id of [newId('app', Date.now()), 'x', owner.organization_id]) {
      expect((await owner.call(method, `/apps/${id}${suffix}`, body)).status, `${method} ${id}`).toBe(404);
    }
  }
  expect((await owner.call('GET', `/apps/${app.id}`)).body).toEqual(app);
});

test('the tap page is off by default, also in older apps, is switched on by owners and members, and reset by null', async () => {
  const app = await newApp();
  expect(app.settings.tap_page).toBe('off');
  await api.db.execute(`UPDATE apps SET settings = settings - 'tap_page' WHERE id = $1`, [app.id]);
  expect((await owner.call('GET', `/apps/${app.id}`)).body.settings).toEqual(defaults);
  const viewer = await api.member('viewer', owner.organization_id);
  expect((await viewer.call('PATCH', `/apps/${app.id}`, { settings: { tap_page: 'ios' } })).status).toBe(403);
  expect((await stranger.call('PATCH', `/apps/${app.id}`, { settings: { tap_page: 'ios' } })).status).toBe(403);
  const member = await api.member('member', owner.organization_id);
  const on = await member.call('PATCH', `/apps/${app.id}`, { settings: { tap_page: 'ios' } });
  expect([on.status, on.body.settings]).toEqual([200, { ...defaults, tap_page: 'ios' }]);
  const reset = await owner.call('PATCH', `/apps/${app.id}`, { settings: { tap_page: null } });
  expect([reset.status, reset.body.settings]).toEqual([200, defaults]);
});

test('the key is nowhere in the database, and its hash finds the app', async () => {
  const app = await newApp();
  const [row] = await api.db.query<{ text: string }>('SELECT to_jsonb(a)::text AS text FROM apps a WHERE id = $1', [
    app.id,
  ]);
  expect(row?.text).not.toContain(app.api_key.slice(8, 38));
  expect(await readAppByKey(api.db, keys.hashes(app.api_key))).toMatchObject({ app_id: app.id, settings: defaults });
});

/** Reads like the gateway: from Redis, otherwise from Postgres, and then writes to Redis. */
async function lookUp(key: string): Promise<string | null> {
  const cached = await snapshots.read(keys.hash(key));
  if (cached) return cached.app_id;
  const app = await readAppByKey(api.db, keys.hashes(key));
  if (app) await snapshots.write(keys.hash(key), app);
  return app?.app_id ?? null;
}

test('a rotated key is invalid when the rotation is answered, and the new one is valid', async () => {
  const app = await newApp();
  expect(await lookUp(app.api_key)).toBe(app.id);
  expect(await snapshots.read(keys.hash(app.api_key))).not.toBeNull();
  const slowReader = await readAppByKey(api.db, keys.hashes(app.api_key));
  const { status, body } = await owner.call('POST', `/apps/${app.id}/rotate-key`);
  expect([status, body.id]).toEqual([200, app.id]);
  expect(body.rotated_at).toMatch(/Z$/);
  expect(isApiKey(body.api_key)).toBe(true);
  expect(body.api_key).not.toBe(app.api_key);
  expect(await lookUp(app.api_key)).toBeNull();
  expect(await lookUp(body.api_key)).toBe(app.id);
  // A reader of Postgres before the rotation that writes to Redis after it must not restore the old key.
  if (slowReader) await snapshots.write(keys.hash(app.api_key), slowReader);
  expect(await lookUp(app.api_key)).toBeNull();
  expect((await owner.call('GET', `/apps/${app.id}`)).body.api_key).toBe(body.api_key);
});

test('under concurrent rotations and lookups, no key is accepted after the response that invalidated it', async () => {
  const app = await newApp();
  let current: string = app.api_key;
  let isDone = false;
  const dead = new Set<string>();
  const keysSeen = [current];
  const looker = async () => {
    for (let n = 0; !isDone; n++) {
      const key = keysSeen[n % keysSeen.length] ?? '';
      const wasDead = dead.has(key);
      const found = await lookUp(key);
      if (wasDead) expect(found).toBeNull();
    }
  };
  const lookers = Promise.all(Array.from({ length: 8 }, looker));
  for (let n = 0; n < 15; n++) {
    const { body } = await owner.call('POST', `/apps/${app.id}/rotate-key`);
    dead.add(current);
    current = body.api_key;
    keysSeen.push(current);
  }
  isDone = true;
  await lookers;
  expect(await lookUp(current)).toBe(app.id);
});

test('changed settings apply to the next lookup', async () => {
  const app = await newApp();
  await lookUp(app.api_key);
  await owner.call('PATCH', `/apps/${app.id}`, { settings: { privacy_mode: 'full_ip' } });
  await lookUp(app.api_key);
  expect((await snapshots.read(keys.hash(app.api_key)))?.settings.privacy_mode).toBe('full_ip');
});

test('deleting an app invalidates its key and its links, and notifies the redirectors', async () => {
  const app = await newApp();
  const link = (await owner.call('POST', '/links', { app_id: app.id, path: '/x' })).body;
  await lookUp(app.api_key);
  const gone = await owner.call('DELETE', `/apps/${app.id}`);
  expect([gone.status, gone.body]).toEqual([200, { id: app.id, deleted: true }]);
  expect(await lookUp(app.api_key)).toBeNull();
  for (const path of [`/apps/${app.id}`, `/links/${link.id}`]) expect((await owner.call('GET', path)).status).toBe(404);
  expect((await owner.call('POST', '/links', { app_id: app.id, path: '/x' })).status).toBe(404);
  expect((await owner.call('POST', `/apps/${app.id}/rotate-key`)).status).toBe(404);
  expect(await api.redis.commands.get(`host:1:${app.host}`)).not.toBeNull();
});

test('while Redis is unavailable a key rotation is rejected', async () => {
  const app = await newApp();
  await api.redisServer.kill('SIGSTOP');
  try {
    const reply = await owner.call('POST', `/apps/${app.id}/rotate-key`);
    expect([reply.status, reply.body.error.code]).toEqual([500, 'INTERNAL_ERROR']);
    expect(reply.headers.get('retry-after')).not.toBeNull();
  } finally {
    await api.redisServer.kill('SIGCONT');
  }
  expect((await owner.call('GET', `/apps/${app.id}`)).body.api_key).toBe(app.api_key);
  expect((await owner.call('POST', `/apps/${app.id}/rotate-key`)).status).toBe(200);
});
