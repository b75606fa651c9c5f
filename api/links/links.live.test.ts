import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { newId } from '#common/ids.ts';
import type { Subscription } from '#common/stores/redis.ts';

let api: ApiForTest;
let owner: Member;
let stranger: Member;
let appId = '';
let host = '';

beforeAll(async () => {
  api = await apiForTest();
  owner = await api.member();
  stranger = await api.member();
  const app = await owner.call('POST', '/apps', { name: 'Links' });
  expect(app.status).toBe(201);
  appId = app.body.id;
  host = app.body.host;
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

const everything = {
  path: '/products/42',
  campaign: 'summer',
  title: 'Summer sale',
  data: { coupon: 'SUN', nested: { list: [1, 2.5, null, true] } },
  tags: ['sale', 'été'],
  external_id: 'crm-1',
  ios_url: 'https://ios.example.com/x',
  android_url: 'https://android.example.com/x',
  fallback_url: 'https://www.example.com/x?y=1#z',
  utm_source: 'newsletter',
  utm_medium: 'email',
  utm_campaign: 'summer_sale',
  utm_term: 'shoes',
  utm_content: 'footer',
  og_title: 'Shoes',
  og_description: 'All of them',
  og_image_url: 'https://img.example.com/1.png',
  expires_at: '2030-01-02T03:04:05.678Z',
  expired_url: 'https://www.example.com/over',
  tap_page: 'mobile',
  rules: [
    { country: ['DE', 'AT'], platform: ['ios'], os_version_min: '17.4', url: 'https://de.example.com/x' },
    { variants: [{ url: 'https://a.example.com/', percent: 50 }] },
  ],
};

async function newLink(fields: object = {}, member = owner) {
  const reply = await member.call('POST', '/links', { app_id: appId, path: '/x', ...fields });
  expect(reply.body.error).toBeUndefined();
  expect(reply.status).toBe(201);
  return reply.body;
}

test('a link is returned with every given field, and reads back the same', async () => {
  const link = await newLink({ ...everything, short_code: 'Summer-1' });
  expect(link).toMatchObject({ ...everything, app_id: appId, source: 'dashboard', archived: false });
  expect(link.id).toMatch(/^lnk_/);
  expect(link.url).toBe(`https://${host}/Summer-1`);
  expect(link.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  expect(link.organization_id).toBeUndefined();
  const read = await owner.call('GET', `/links/${link.id}`);
  expect([read.status, read.body]).toEqual([200, link]);
});

test('a link without a code gets seven base58 characters, and omitted fields are null or empty', async () => {
  const link = await newLink();
  expect(link.short_code).toMatch(/^[1-9A-HJ-NP-Za-km-z]{7}$/);
  expect(link).toMatchObject({ campaign: null, title: null, data: {}, tags: [], external_id: null, expires_at: null });
});

test('a path gets a leading / if it is missing', async () => {
  expect((await newLink({ path: 'products' })).path).toBe('/products');
});

test('app_id may be omitted by a user who sees exactly one app', async () => {
  const member = await api.member();
  const none = await member.call('POST', '/links', { path: '/x' });
  expect([none.status, none.body.error.details.field]).toEqual([400, 'app_id']);
  const app = (await member.call('POST', '/apps', { name: 'One' })).body;
  expect((await member.call('POST', '/links', { path: '/x' })).body.app_id).toBe(app.id);
  await member.call('POST', '/apps', { name: 'Two' });
  const two = await member.call('POST', '/links', { path: '/x' });
  expect([two.status, two.body.error.details.field]).toEqual([400, 'app_id']);
});

const wrong: [string, Record<string, unknown>, string][] = [
  ['no path', { path: undefined }, 'path'],
  ['an empty path', { path: '' }, 'path'],
  ['a path of 2049', { path: `/${'x'.repeat(2048)}` }, 'path'],
  ['a path of 2048 without its /', { path: 'x'.repeat(2048) }, 'path'],
  ['a path with a line break', { path: '/a\r\nb' }, 'path'],
  ['a path that is a number', { path: 1 }, 'path'],
  ['a code of 2', { short_code: 'ab' }, 'short_code'],
  ['a code of 65', { short_code: 'a'.repeat(65) }, 'short_code'],
  ['a code with a dot', { short_code: 'a.b.c' }, 'short_code'],
  ['a reserved code', { short_code: 'Apple-App-Site-Association' }, 'short_code'],
  ['http', { ios_url: 'http://example.com' }, 'ios_url'],
  ['a scheme of an app', { android_url: 'myapp://x' }, 'android_url'],
  ['javascript', { fallback_url: 'javascript:alert(1)' }, 'fallback_url'],
  ['a tab in the scheme', { fallback_url: 'java\tscript:alert(1)' }, 'fallback_url'],
  ['a header in a URL', { fallback_url: 'https://example.com/\r\nSet-Cookie: a=b' }, 'fallback_url'],
  ['a URL with a password', { expired_url: 'https://a:b@example.com/' }, 'expired_url'],
  ['a URL without a host', { og_image_url: 'https:///x' }, 'og_image_url'],
  ['a backslash host', { og_image_url: 'https:\\\\evil.example' }, 'og_image_url'],
  ['a URL of 8193', { ios_url: `https://example.com/${'x'.repeat(8_173)}` }, 'ios_url'],
  ['a rule with a URL of 8193', { rules: [{ url: `https://example.com/${'x'.repeat(8_173)}` }] }, 'rules[0].url'],
  ['a campaign of blanks', { campaign: '  ' }, 'campaign'],
  ['a utm_source of blanks', { utm_source: '\u00a0\t' }, 'utm_source'],
  ['a utm_content that shows nothing', { utm_content: '\u200b' }, 'utm_content'],
  ['an external_id of blanks', { external_id: ' ' }, 'external_id'],
  ['a preview title of blanks', { og_title: '   ' }, 'og_title'],
  ['a tag of blanks', { tags: ['sale', ' '] }, 'tags[1]'],
  ['21 tags', { tags: Array.from({ length: 21 }, (_, n) => `t${n}`) }, 'tags'],
  ['an empty tag', { tags: ['a', ''] }, 'tags[1]'],
  ['a tag twice', { tags: ['a', 'a'] }, 'tags'],
  ['data over 10 KiB', { data: { a: 'x'.repeat(10_240) } }, 'data'],
  ['data that is a list', { data: [] }, 'data'],
  ['data nested too deep', { data: JSON.parse(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`) }, `data${'.a'.repeat(31)}`],
  ['a NUL', { title: 'a\0b' }, 'title'],
  ['a title that shows nothing', { title: '\u200b' }, 'title'],
  ['a time without a zone', { expires_at: '2030-01-01T00:00:00' }, 'expires_at'],
  ['a time before 1970', { expires_at: '0001-01-01T00:00:00Z' }, 'expires_at'],
  ['a time with a space', { expires_at: '2030-01-01 00:00:00Z' }, 'expires_at'],
  ['a leap second', { expires_at: '2016-12-31T23:59:60Z' }, 'expires_at'],
  ['a long campaign', { campaign: 'x'.repeat(256) }, 'campaign'],
  ['a tap page on Android alone', { tap_page: 'android' }, 'tap_page'],
  ['an empty tap page', { tap_page: '' }, 'tap_page'],
  ['a rule without a destination', { rules: [{ country: ['DE'] }] }, 'rules[0].url'],
  ['a rule with a small country', { rules: [{ country: ['de'], url: 'https://x.example/' }] }, 'rules[0].country[0]'],
  ['an unknown field', { sort_code: 'abc' }, 'sort_code'],
  ['a field that is not writable', { source: 'sdk' }, 'source'],
];
test.each(wrong)('%s is a 400 that names the field, on creation and on update', async (_, fields, field) => {
  const created = await owner.call('POST', '/links', { app_id: appId, path: '/x', ...fields });
  expect([created.status, created.body.error?.code, created.body.error?.details?.field]).toEqual([
    400,
    'VALIDATION_ERROR',
    field,
  ]);
  if (fields.path === undefined && 'path' in fields) return;
  const link = await newLink();
  const updated = await owner.call('PATCH', `/links/${link.id}`, fields);
  expect([updated.status, updated.body.error?.details?.field]).toEqual([400, field]);
});

test('several errors are all reported', async () => {
  const { body } = await owner.call('POST', '/links', { app_id: appId, path: 1, tags: 'x', zzz: 1 });
  expect(body.error.details.errors.map((fault: { field: string }) => fault.field).sort()).toEqual([
    'path',
    'tags',
    'zzz',
  ]);
});

test('errors that the schema cannot express are reported together with the others, on creation and on update', async () => {
  const faulty = { tags: ['a', 5], ios_url: 'http://x', short_code: 'robots' };
  const link = await newLink();
  for (const reply of [
    await owner.call('POST', '/links', { app_id: appId, path: '/x', ...faulty }),
    await owner.call('PATCH', `/links/${link.id}`, faulty),
  ]) {
    const fields = reply.body.error.details.errors.map((fault: { field: string }) => fault.field);
    expect([reply.status, fields]).toEqual([400, ['tags[1]', 'ios_url', 'short_code']]);
  }
});

test('a number in data that does not fit a double gets a 400 instead of becoming null', async () => {
  const body = `{"app_id":"${appId}","path":"/x","data":{"a":[1,{"n":1e400}]}}`;
  const reply = await owner.call('POST', '/links', body);
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'data.a[1].n']);
});

test('the url of a link is computed, so an update of it is a 400', async () => {
  const link = await newLink();
  const reply = await owner.call('PATCH', `/links/${link.id}`, { url: 'https://example.com' });
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'url']);
});

test('the length of a path is counted in visible characters, whatever their encoding', async () => {
  const path = `/${'😀'.repeat(2047)}`;
  expect((await newLink({ path })).path).toBe(path);
});

test.each(['0x10', '1e1', ' 5', '+5', '5.0', '-1', ''])('limit=%j is a 400', async (limit) => {
  const reply = await owner.call('GET', `/links?limit=${encodeURIComponent(limit)}`);
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'limit']);
});

test('a deletion accepts no fields: an empty object is accepted, any field gets a 400 that names it', async () => {
  const link = await newLink();
  for (const [body, field] of [
    ['{"force":true}', 'force'],
    ['[]', 'body'],
    ['{', 'body'],
  ] as const) {
    const reply = await owner.call('DELETE', `/links/${link.id}`, body);
    expect([reply.status, reply.body.error.details.field]).toEqual([400, field]);
  }
  expect((await owner.call('DELETE', `/links/${link.id}`, {})).status).toBe(200);
});

test('a taken code gets a 400, even if the link that had it is deleted', async () => {
  const link = await newLink({ short_code: 'taken-1' });
  const taken = { app_id: appId, path: '/y', short_code: 'taken-1' };
  for (const state of ['live', 'deleted']) {
    const again = await owner.call('POST', '/links', taken);
    const { details } = again.body.error;
    expect([again.status, details.field, details.reason], state).toEqual([400, 'short_code', 'taken']);
    expect(details.link_id, state).toBe(state === 'live' ? link.id : undefined);
    if (state === 'live') await owner.call('DELETE', `/links/${link.id}`);
  }
  const other = await newLink();
  const moved = await owner.call('PATCH', `/links/${other.id}`, { short_code: 'taken-1' });
  expect([moved.status, moved.body.error.details]).toEqual([
    400,
    { field: 'short_code', reason: 'taken', doc_url: '/v1/docs/api.md#many-links' },
  ]);
  expect((await newLink({ short_code: 'Taken-1' })).short_code).toBe('Taken-1');
});

test('an external id is unique in its app as long as its link exists', async () => {
  const link = await newLink({ external_id: 'e-1' });
  const again = await owner.call('POST', '/links', { app_id: appId, path: '/x', external_id: 'e-1' });
  expect([again.status, again.body.error.details.field]).toEqual([400, 'external_id']);
  await owner.call('DELETE', `/links/${link.id}`);
  await newLink({ external_id: 'e-1' });
});

test('an update changes the given fields, clears null ones, and leaves the rest', async () => {
  const link = await newLink({ ...everything, external_id: 'u-1' });
  const changed = await owner.call('PATCH', `/links/${link.id}`, {
    path: 'new',
    campaign: null,
    data: null,
    tags: null,
    expires_at: null,
    archived: true,
    short_code: 'renamed-1',
    utm_term: 'boots',
    tap_page: null,
    rules: [],
  });
  expect(changed.status).toBe(200);
  const { updated_at, ...rest } = changed.body;
  expect(rest).toEqual({
    ...Object.fromEntries(Object.entries(link).filter(([name]) => name !== 'updated_at')),
    path: '/new',
    campaign: null,
    data: {},
    tags: [],
    expires_at: null,
    archived: true,
    short_code: 'renamed-1',
    url: `https://${host}/renamed-1`,
    utm_term: 'boots',
    tap_page: null,
    rules: null,
  });
  expect(updated_at >= link.updated_at).toBe(true);
  expect((await owner.call('GET', `/links/${link.id}`)).body).toEqual(changed.body);
});

test.each([
  ['an empty body', {}, 'body'],
  ['a field that never changes', { app_id: 'app_x' }, 'app_id'],
  ['its id', { id: 'lnk_x' }, 'id'],
  ['its time', { created_at: '2030-01-01T00:00:00Z' }, 'created_at'],
  ['null in a required field', { path: null }, 'path'],
])('an update with %s is a 400', async (_, body, field) => {
  const link = await newLink();
  const reply = await owner.call('PATCH', `/links/${link.id}`, body);
  expect([reply.status, reply.body.error.details.field]).toEqual([400, field]);
});

test('a deleted link is a 404 for every caller', async () => {
  const link = await newLink();
  const gone = await owner.call('DELETE', `/links/${link.id}`);
  expect([gone.status, gone.body]).toEqual([200, { id: link.id, deleted: true }]);
  for (const [method, body] of [['GET'], ['PATCH', { title: 'x' }], ['DELETE']] as const) {
    expect((await owner.call(method, `/links/${link.id}`, body)).status).toBe(404);
    expect((await stranger.call(method, `/links/${link.id}`, body)).status).toBe(404);
  }
});

test('another organization gets 403 for an existing link, and every caller 404 for a missing one', async () => {
  const link = await newLink();
  const requests: [string, string, unknown?][] = [
    ['GET', ''],
    ['PATCH', '', { title: 'x' }],
    ['DELETE', ''],
    ['GET', '/qr'],
  ];
  for (const [method, suffix, body] of requests) {
    expect((await stranger.call(method, `/links/${link.id}${suffix}`, body)).status, method).toBe(403);
    for (const id of [newId('lnk', Date.now()), 'lnk_x', appId, "lnk_' OR 1=1", '%F0%9F%98%80', 'x'.repeat(500)]) {
      const reply = await owner.call(method, `/links/${id}${suffix}`, body);
      expect([reply.status, reply.body.error.code], `${method} ${id}`).toEqual([404, 'NOT_FOUND']);
    }
  }
  const created = await stranger.call('POST', '/links', { app_id: appId, path: '/x' });
  expect(created.status).toBe(403);
  expect((await owner.call('POST', '/links', { app_id: newId('app', Date.now()), path: '/x' })).status).toBe(404);
  expect((await owner.call('GET', `/links/${link.id}`)).body.title).toBeNull();
});

test('a viewer can read but not write; a member can do both', async () => {
  const link = await newLink();
  const viewer = await api.member('viewer', owner.organization_id);
  const member = await api.member('member', owner.organization_id);
  expect((await viewer.call('GET', `/links/${link.id}`)).status).toBe(200);
  expect((await viewer.call('POST', '/links', { app_id: appId, path: '/x' })).status).toBe(403);
  expect((await viewer.call('PATCH', `/links/${link.id}`, { title: 'x' })).status).toBe(403);
  expect((await viewer.call('DELETE', `/links/${link.id}`)).status).toBe(403);
  // Regardless of the body: no other body would be accepted either.
  for (const body of [{}, { path: 1 }, '{'])
    expect((await viewer.call('POST', '/links', body)).status, JSON.stringify(body)).toBe(403);
  expect((await member.call('PATCH', `/links/${link.id}`, { title: 'x' })).status).toBe(200);
  expect((await member.call('DELETE', `/links/${link.id}`)).status).toBe(200);
});

test('of 20 concurrent creations with one code, exactly one gets it', async () => {
  const replies = await Promise.all(
    Array.from({ length: 20 }, () => owner.call('POST', '/links', { app_id: appId, path: '/x', short_code: 'race-1' })),
  );
  expect(replies.map((reply) => reply.status).sort()).toEqual([201, ...Array.from({ length: 19 }, () => 400)]);
});

test('every change of a link is announced after it is committed', async () => {
  const announced: string[] = [];
  const subscription = await new Promise<Subscription>((listening, fail) => {
    const subscribed = api.redis.subscribe(
      ['links:changes'],
      (_, message) => void announced.push(message),
      () => void subscribed.then(listening),
    );
    subscribed.catch(fail);
  });
  const link = await newLink({ short_code: 'announced-1' });
  await expect.poll(() => announced).toEqual([`link ${host}/announced-1`]);
  announced.length = 0;
  await owner.call('PATCH', `/links/${link.id}`, { short_code: 'announced-2' });
  await expect.poll(() => [...announced].sort()).toEqual([`link ${host}/announced-1`, `link ${host}/announced-2`]);
  announced.length = 0;
  await owner.call('DELETE', `/links/${link.id}`);
  await expect.poll(() => announced).toEqual([`link ${host}/announced-2`]);
  await subscription.close();
});

test('a QR code is returned as SVG or PNG in the requested size', async () => {
  const link = await newLink();
  const svg = await owner.call('GET', `/links/${link.id}/qr`);
  expect([svg.status, svg.headers.get('content-type')]).toEqual([200, 'image/svg+xml']);
  expect(svg.headers.get('content-security-policy')).toBe("default-src 'none'; sandbox");
  expect(svg.body).toContain('<svg');
  expect(svg.body).toContain('width="300"');
  const png = await owner.call('GET', `/links/${link.id}/qr?format=png&size=128`);
  expect([png.status, png.headers.get('content-type')]).toEqual([200, 'image/png']);
  expect(png.body).toContain('PNG');
  for (const [query, field] of [
    ['format=gif', 'format'],
    ['size=10', 'size'],
    ['size=99999', 'size'],
    ['size=x', 'size'],
    ['colour=red', 'colour'],
  ]) {
    const reply = await owner.call('GET', `/links/${link.id}/qr?${query}`);
    expect([reply.status, reply.body.error.details.field]).toEqual([400, field]);
  }
});

/** Added the way an import does. */
async function addCode(link_id: string, code: string, app_id = appId): Promise<void> {
  await api.db.execute(
    'INSERT INTO link_codes (organization_id, app_id, code, link_id, created_at) VALUES ($1, $2, $3, $4, now())',
    [owner.organization_id, app_id, code, link_id],
  );
}

test('a link with several codes is shown with all of them, and can be found by each', async () => {
  const { id } = await newLink();
  await api.db.execute('UPDATE links SET short_code = $2 WHERE id = $1', [id, 'été/1']);
  for (const code of ['a.b~c', 'Second']) await addCode(id, code);
  const url = `https://${host}/%C3%A9t%C3%A9/1`;
  const { body } = await owner.call('GET', `/links/${id}`);
  expect(body).toMatchObject({ short_code: 'été/1', other_codes: ['Second', 'a.b~c'], url });
  for (const query of [
    `url=${encodeURIComponent(url)}`,
    `url=${encodeURIComponent(`${host}/a%2Eb~c`)}`,
    `host=${host}&short_code=Second`,
    `host=${host}&short_code=${encodeURIComponent('e\u0301te\u0301/1')}`,
  ]) {
    expect((await owner.call('GET', `/links/lookup?${query}`)).body.id, query).toBe(id);
    expect((await stranger.call('GET', `/links/lookup?${query}`)).status, query).toBe(404);
  }
  expect((await owner.call('GET', `/links/lookup?host=${host}&short_code=second`)).status).toBe(404);
});

test('an additional code of a link cannot be given to another link in any way', async () => {
  const { id } = await newLink();
  await addCode(id, 'taken-twice');
  const other = await newLink();
  const fields = { app_id: appId, path: '/x', short_code: 'taken-twice' };
  for (const reply of [
    await owner.call('POST', '/links', fields),
    await owner.call('PATCH', `/links/${other.id}`, { short_code: 'taken-twice' }),
  ]) {
    expect([reply.status, reply.body.error.details]).toEqual([
      400,
      { field: 'short_code', reason: 'taken', link_id: id, doc_url: '/v1/docs/api.md#many-links' },
    ]);
  }
  const bulk = await owner.call('POST', '/links/bulk', { links: [fields, { ...fields, short_code: 'free-code' }] });
  expect(bulk.body.results.map((one: { status: string }) => one.status)).toEqual(['failed', 'created']);
  expect(bulk.body.results[0].error.details).toMatchObject({ field: 'short_code', reason: 'taken', link_id: id });
  // A link cannot get an additional code that another link has, either.
  await addCode(id, 'free-code');
  expect((await owner.call('GET', `/links/${id}`)).body.other_codes).toEqual(['taken-twice']);
});

test('an app with case-insensitive codes stores them in lower case, and each only once', async () => {
  const app = (await owner.call('POST', '/apps', { name: 'Quiet' })).body;
  const ignore = () => owner.call('PATCH', `/apps/${app.id}`, { settings: { codes_ignore_case: true } });
  const capital = await newLink({ app_id: app.id, short_code: 'Printed' });
  const refused = await ignore();
  expect([refused.status, refused.body.error.details.field]).toEqual([400, 'settings.codes_ignore_case']);
  await owner.call('PATCH', `/links/${capital.id}`, { short_code: 'printed' });
  expect((await ignore()).body.settings.codes_ignore_case).toBe(true);

  expect((await newLink({ app_id: app.id, short_code: 'Summer' })).short_code).toBe('summer');
  await addCode(capital.id, 'FLYER', app.id);
  expect((await newLink({ app_id: app.id })).short_code).toMatch(/^[a-z0-9]{7}$/);
  for (const [short_code, holder] of [['SUMMER'], ['PRINTED', capital.id], ['Flyer', capital.id]]) {
    const one = await owner.call('POST', '/links', { app_id: app.id, path: '/x', short_code });
    expect([one.status, one.body.error.details.reason], short_code).toEqual([400, 'taken']);
    const many = await owner.call('POST', '/links/bulk', { links: [{ app_id: app.id, path: '/x', short_code }] });
    expect(many.body.results[0].error.details.reason, short_code).toBe('taken');
    if (holder) expect(many.body.results[0].error.details.link_id).toBe(holder);
    const found = await owner.call('GET', `/links/lookup?host=${app.host}&short_code=${short_code}`);
    expect(found.status, short_code).toBe(200);
  }
});

test('numbers in the data of a link keep their digits, in answers, in bulk, after changes and in webhooks', async () => {
  const digits =
    '{"id":12345678901234567890,"list":[{"rate":0.12345678901234567890123}],"text":"12345678901234567890"}';
  const send = async (method: string, path: string, body: string) => {
    const headers = {
      authorization: `Bearer ${owner.token}`,
      'content-type': 'application/json',
      'x-forwarded-proto': 'https',
    };
    const reply = await fetch(api.url + path, { method, headers, ...(body === '' ? {} : { body }) });
    return await reply.text();
  };
  // As jsonb orders the members.
  const data =
    /"data":\{"id":12345678901234567890,"list":\[\{"rate":0\.12345678901234567890123\}\],"text":"12345678901234567890"\}/;
  const made = await send('POST', '/links', `{"app_id":"${appId}","path":"/x","data":${digits}}`);
  expect(made).toMatch(data);
  const { id } = JSON.parse(made);
  expect(await send('GET', `/links/${id}`, '')).toMatch(data);
  expect(await send('GET', `/links?app_id=${appId}&limit=5`, '')).toMatch(data);
  expect(await send('PATCH', `/links/${id}`, '{"title":"Digits"}')).toMatch(data);
  expect(await send('PATCH', `/links/${id}`, `{"data":${digits.replace('890,', '891,')}}`)).toContain(
    '12345678901234567891',
  );
  expect(await send('POST', '/links/bulk', `{"links":[{"app_id":"${appId}","path":"/x","data":${digits}}]}`)).toMatch(
    data,
  );
  await send('PATCH', '/links/bulk', `{"ids":["${id}"],"changes":{"data":${digits}}}`);
  expect(await send('GET', `/links/${id}`, '')).toMatch(data);
  const upsert = `/links/by-external-id/${appId}/digits`;
  for (const _ of [1, 2]) expect(await send('PUT', upsert, `{"path":"/x","data":${digits}}`)).toMatch(data);
  expect(await send('POST', '/links', `{"app_id":"${appId}","path":"/x","data":{"n":1e400}}`)).toContain('data.n');
});
