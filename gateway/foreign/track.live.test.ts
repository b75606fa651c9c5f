import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newApiKey } from '#common/api-key.ts';
import { SdkEdge } from '#gateway/testing/sdk-edge.ts';

let edge: SdkEdge;
beforeAll(async () => {
  edge = await SdkEdge.start();
});
afterAll(async () => {
  await edge.stop();
  expect(edge.failures).toEqual([]);
});

const recorded = (app_id: string) => edge.events(app_id);

const now = () => new Date().toISOString();

test.each([
  ['half an emoji', 'Hello \ud83d'],
  ['a NUL', 'a\0b'],
  ['33 levels', JSON.parse('['.repeat(33) + ']'.repeat(33))],
])('an item with %s is rejected alone, and the rest of its batch is stored', async (_, title) => {
  const { app_id, key } = await edge.app();
  const basic = { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` };
  const track = (properties: object) => ({ type: 'track', event: 'read', userId: 'u1', timestamp: now(), properties });
  const identify = { type: 'identify', userId: 'u1', traits: { title } };
  const batch = [track({ title }), track({ title: 'whole' }), identify];
  const segment = await edge.post('/sdk/segment/v1/batch', '', { batch }, basic);
  expect(segment).toMatchObject({ status: 200, body: { rejected: 1, errors: [{ index: 0 }] } });
  const single = await edge.post('/sdk/segment/v1/track', '', track({ title }), basic);
  expect([single.status, single.body.error.details.field]).toEqual([400, expect.stringMatching(/^properties\.title/)]);
  const capture = (properties: object) => ({ event: 'read', distinct_id: 'u1', timestamp: now(), properties });
  const sent = { api_key: key, batch: [capture({ title }), capture({ title: 'whole' })] };
  const posthog = await edge.post('/sdk/posthog/batch/', '', sent);
  expect(posthog).toMatchObject({ status: 200, body: { rejected: 1, errors: [{ index: 0 }] } });
  expect(recorded(app_id).map(({ name }) => name)).toEqual(['read', 'read']);
});

test.each(['a\0b', 'half \ud83d'])(
  'identifiers that cannot be stored (%j) are rejected alone, as are calls with them',
  async (bad) => {
    const { app_id, key } = await edge.app();
    const basic = { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` };
    const batch = [
      { type: 'track', event: 'read', userId: bad },
      { type: 'track', event: 'read', userId: 'u1', anonymousId: 'a1', context: { ip: bad, device: { id: bad } } },
      { type: 'alias', userId: 'u1', previousId: bad },
    ];
    const answer = await edge.post('/sdk/segment/v1/batch', '', { batch }, basic);
    expect(answer).toMatchObject({ status: 200, body: { rejected: 1, errors: [{ index: 0, field: 'userId' }] } });
    const captures = [
      { event: 'read', distinct_id: bad },
      { event: 'read', distinct_id: 'u1', properties: { $ip: bad } },
      { event: '$create_alias', distinct_id: 'u1', properties: { alias: bad } },
      { event: 'read', distinct_id: 'u2' },
    ];
    const posthog = await edge.post('/sdk/posthog/batch/', '', { api_key: key, batch: captures });
    expect(posthog).toMatchObject({ status: 200, body: { rejected: 2, errors: [{ index: 0 }, { index: 1 }] } });
    expect(recorded(app_id).map(({ user_id }) => user_id)).toEqual(['u1', 'u2']);
  },
);

test("of Segment's six calls only `track` is an event, with the key as Basic user name or in the body", async () => {
  const { app_id, key } = await edge.app();
  const context = { library: { name: '@segment/analytics-node', version: '3.1.0' }, os: { name: 'iOS' } };
  const batch = [
    {
      type: 'track',
      event: 'Order Completed',
      userId: 'u1',
      messageId: 'node-next-1-a',
      timestamp: now(),
      context,
      properties: { revenue: 9.5, currency: 'eur', sku: 1 },
    },
    {
      type: 'page',
      name: 'Home',
      category: 'Docs',
      anonymousId: 'a1',
      messageId: 'm2',
      timestamp: now(),
      properties: { url: 'x' },
    },
    { type: 'identify', userId: 'u1', messageId: 'm3', traits: { plan: 'pro' } },
    { type: 'group', userId: 'u1', groupId: 'g1', messageId: 'm4' },
    { type: 'alias', userId: 'u1', previousId: 'a1', messageId: 'm5' },
    { type: 'screen', name: 'Start', userId: 'u1', messageId: 'm'.repeat(100) },
    { type: 'track', userId: 'u1', messageId: 'nameless' },
    'junk',
  ];
  const basic = { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` };
  const answer = await edge.post('/sdk/segment/v1/batch', '', { batch, sentAt: now() }, basic);
  const errors = [
    { index: 6, field: 'event' },
    { index: 7, field: '' },
  ];
  expect(answer).toMatchObject({ status: 200, body: { success: true, rejected: 2, errors } });
  const inBody = await edge.post('/sdk/segment/v1/batch', '', gzipSync(JSON.stringify({ batch, writeKey: key })), {
    'content-encoding': 'gzip',
  });
  expect(inBody).toMatchObject({ status: 200, body: { success: true, rejected: 2 } });
  const events = recorded(app_id);
  expect(events.map(({ name }) => name)).toEqual(['Order Completed']);
  expect(edge.refused(app_id)).toEqual(['bad_name', 'not_an_object', 'bad_name', 'not_an_object']);
  expect(events[0]).toMatchObject({
    event_id: 'node-next-1-a',
    user_id: 'u1',
    platform: 'ios',
    revenue_amount: '9.5',
    revenue_currency: 'EUR',
    is_conversion: true,
    ip: '',
  });
});

test("PostHog's batch is accepted, with the key in the body", async () => {
  const { app_id, key } = await edge.app();
  const uuid = '01932f6e-7f7b-7000-8000-000000000001';
  const batch = [
    {
      type: 'capture',
      event: 'signup',
      distinct_id: 'u1',
      uuid,
      timestamp: now(),
      properties: { $lib: 'posthog-node', $session_id: 's1' },
    },
    { type: 'capture', event: 'signup', distinct_id: 'u1', uuid, timestamp: now() },
  ];
  const answer = await edge.post('/sdk/posthog/batch/', '', { api_key: key, batch, sent_at: now() });
  expect([answer.status, answer.body]).toEqual([200, { status: 1 }]);
  expect(recorded(app_id)).toMatchObject([
    { name: 'signup', event_id: uuid, user_id: 'u1', session_id: 's1', is_conversion: true },
  ]);
});

test('an event with an amount but no currency is rejected alone, reported, counted, and stored as a dead letter', async () => {
  const { app_id, key } = await edge.app();
  const bought = (messageId: string, properties: object) => ({
    ...{ type: 'track', event: 'bought', userId: 'u1', messageId, properties },
  });
  const batch = [
    bought('m0', { revenue: 5, currency: 'EURO' }),
    { type: 'identify', userId: 'u1' },
    bought('m2', { revenue: 5 }),
    bought('m3', { revenue: '5,00', currency: 'EUR' }),
    bought('m4', { revenue: -5, currency: 'EUR' }),
  ];
  const { status, body } = await edge.post('/sdk/segment/v1/batch', key, { batch });
  expect([status, body.rejected]).toEqual([200, 3]);
  expect(body.errors).toMatchObject([
    { index: 0, event_id: 'm0', field: 'properties.currency' },
    { index: 2, event_id: 'm2', field: 'properties.currency' },
    { index: 3, event_id: 'm3', field: 'properties.revenue' },
  ]);
  expect(recorded(app_id)).toMatchObject([{ event_id: 'm4', revenue_amount: '-5', is_conversion: false }]);
  expect(edge.refused(app_id)).toEqual(['bad_currency', 'bad_currency', 'bad_amount']);
  const kept = edge.lines('event').filter((line) => line.includes('"refused":') && line.includes(app_id));
  expect(JSON.parse(kept[0] ?? '')).toMatchObject({ message: 'must be an ISO 4217 code', excerpt: batch[0] });
  const metrics = await edge.metrics.metrics();
  expect(metrics).toMatch(/signpost_gateway_events_refused_total\{[^}]*reason="bad_currency"[^}]*\} [2-9]/);
  expect(metrics).toMatch(/signpost_gateway_foreign_calls_total\{[^}]*call="identify"[^}]*\} [1-9]/);
});

test('a batch without a valid event gets 400 that names each item', async () => {
  const { key } = await edge.app();
  const event = { event: 'bought', distinct_id: 'u1', properties: { revenue: 5 } };
  const { status, body } = await edge.post('/sdk/posthog/batch/', key, { batch: [event, 7] });
  expect([status, body.error.details.errors]).toMatchObject([
    400,
    [{ field: 'batch[0].properties.currency' }, { field: 'batch[1]' }],
  ]);
});

test('an event carries the aliases of its device, from an alias call or its context, in either direction', async () => {
  const { app_id, key } = await edge.app();
  const track = (messageId: string, more: object) => ({ type: 'track', event: 'x', messageId, ...more });
  const send = (batch: object[]) => edge.post('/sdk/segment/v1/batch', key, { batch });
  await send([{ type: 'alias', userId: 'u1', previousId: 'd1' }, track('same-batch', { userId: 'u1' })]);
  await send([
    track('later', { userId: 'u1' }),
    track('back', { anonymousId: 'd1' }),
    track('context', { anonymousId: 'a1', context: { device: { id: 'd2' } } }),
    track('none', { userId: 'u2' }),
  ]);
  const aliases = Object.fromEntries(recorded(app_id).map((event) => [event.event_id, event.aliases]));
  expect(aliases).toEqual({ 'same-batch': ['d1'], later: ['d1'], back: ['u1'], context: ['d2'], none: [] });
});

test("the country of a server's event is looked up by the device's address, of which only the network is stored", async () => {
  const { app_id, key } = await edge.app();
  const hidden = await edge.app({ privacy_mode: 'no_ip' });
  const batch = [{ type: 'track', event: 'x', userId: 'u1', messageId: 'm1', context: { ip: '198.51.100.77' } }];
  await edge.post('/sdk/segment/v1/batch', key, { batch });
  await edge.post('/sdk/segment/v1/batch', hidden.key, { batch });
  expect(recorded(app_id)).toMatchObject([{ ip: '', device_ip: '198.51.100.0' }]);
  expect(recorded(hidden.app_id)).toMatchObject([{ device_ip: '' }]);
  const own = await edge.app();
  const event = { name: 'x', device_id: 'd1' };
  await edge.post('/sdk/events', own.key, { events: [event], context: { ip: '198.51.100.77' } });
  await edge.post('/sdk/events', own.key, { events: [event], context: { ip: 7 } });
  expect(recorded(own.app_id).map(({ device_ip }) => device_ip)).toEqual(['198.51.100.0', '']);
});

test('a page of another origin may send the headers of every supported client', async () => {
  const ask = (path: string) =>
    fetch(edge.base + path, {
      method: 'OPTIONS',
      headers: {
        ...{
          'x-forwarded-proto': 'https',
          origin: 'https://shop.example.com',
          'access-control-request-method': 'POST',
        },
        'access-control-request-headers': 'authorization,content-type,x-api-key,x-retry-count',
      },
    });
  for (const path of ['/sdk/events', '/sdk/match', '/sdk/segment/v1/t', '/sdk/posthog/e/']) {
    const { status, headers } = await ask(path);
    const allowed = headers.get('access-control-allow-headers')?.toLowerCase().split(', ');
    expect([path, status, headers.get('access-control-allow-origin')]).toEqual([path, 204, '*']);
    expect(allowed).toEqual(expect.arrayContaining(['authorization', 'content-type', 'x-api-key', 'x-retry-count']));
  }
});

test('each of Segment’s calls has a path that gives its type; a rejected call gets 400 with its field', async () => {
  const { app_id, key } = await edge.app();
  const send = (end: string, body: object) => edge.post(`/sdk/segment/v1/${end}`, '', { writeKey: key, ...body });
  for (const end of ['t', 'track']) {
    const body = { type: 'page', event: `by ${end}`, userId: 'u1' };
    expect(await send(end, body)).toMatchObject({ status: 200, body: { success: true } });
  }
  for (const end of ['i', 'identify', 'g', 'group', 'p', 'page', 's', 'screen', 'a', 'alias'])
    expect([end, (await send(end, { userId: 'u1', event: 'x', type: 'track' })).status]).toEqual([end, 200]);
  for (const end of ['b', 'import'])
    expect((await send(end, { batch: [{ type: 'track', event: `by ${end}`, userId: 'u1' }] })).status).toBe(200);
  expect(recorded(app_id).map(({ name }) => name)).toEqual(['by t', 'by track', 'by b', 'by import']);
  const rejected = await send('t', { event: 'x', userId: 'u1', properties: { revenue: 5 } });
  expect([rejected.status, rejected.body.error.details.field]).toEqual([400, 'properties.currency']);
  expect((await send('t', { event: 'x' })).body.error.details.field).toBe('anonymousId');
  expect((await send('m', { series: [] })).status).toBe(400);
  expect((await edge.post('/sdk/segment/v1/t', '', { writeKey: newApiKey(), event: 'x' })).status).toBe(401);
});

test('PostHog’s captures are accepted on each of its paths and in each body format', async () => {
  const { app_id, key } = await edge.app();
  let sent = 0;
  const capture = () => ({ event: `x${sent++}`, properties: { distinct_id: 'u1', token: key } });
  const post = (path: string, body: string | Buffer, headers: Record<string, string> = {}) =>
    edge.post(`/sdk/posthog/${path}`, '', body, { 'content-type': 'text/plain', ...headers });
  const inForm = (text: string) => `data=${encodeURIComponent(Buffer.from(text).toString('base64'))}`;
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const ends = [
    'batch/',
    'batch',
    'e/?ip=1&_=1&ver=1.2',
    'e',
    'i/v0/e/',
    'i/v0/e',
    'capture/',
    'capture',
    'track/',
    'track',
  ];
  for (const end of ends) {
    const body = JSON.stringify({ api_key: key, batch: [capture()] });
    expect([end, await post(end, body)]).toMatchObject([end, { status: 200, body: { status: 1 } }]);
  }
  const bodies = [
    JSON.stringify(capture()),
    JSON.stringify([capture(), capture()]),
    JSON.stringify({ token: key, ...capture() }),
    inForm(JSON.stringify([capture()])),
    `data=${encodeURIComponent(JSON.stringify(capture()))}&compression=`,
  ];
  for (const body of bodies) expect((await post('e/', body, form)).status).toBe(200);
  expect(
    (await post('e/?compression=gzip-js', gzipSync(JSON.stringify({ api_key: key, batch: [capture()] })))).status,
  ).toBe(200);
  expect(
    (await post('e/', gzipSync(gzipSync(JSON.stringify([capture()]))), { 'content-encoding': 'gzip' })).status,
  ).toBe(200);
  expect(recorded(app_id).map(({ name }) => name)).toEqual(Array.from({ length: sent }, (_, n) => `x${n}`));
  const refused = [
    gzipSync(Buffer.alloc(2 << 20, ' ')),
    Buffer.from('\x1f\x8bjunk', 'latin1'),
    'data=%',
    'data=Ä',
    '7',
    '[',
    '',
  ];
  for (const body of refused) expect([body, (await post('e/', body)).status]).toEqual([body, 400]);
  const other = await edge.app();
  const mixed = await post('e/', JSON.stringify([capture(), { event: 'x', properties: { token: other.key } }]));
  expect([mixed.status, mixed.body.error.details.field]).toEqual([400, '[1].properties.token']);
  expect((await post('e/', JSON.stringify([{ event: 'x', distinct_id: 'u1' }]))).status).toBe(401);
});

test('clients get settings that turn off features Signpost does not have, but only for a known key', async () => {
  const { key } = await edge.app();
  const get = async (path: string) => {
    const answer = await fetch(edge.base + path, { headers: { 'x-forwarded-proto': 'https' } });
    return { status: answer.status, headers: answer.headers, body: await answer.json() };
  };
  const settings = await get(`/sdk/segment/v1/projects/${key}/settings`);
  expect(settings).toMatchObject({ status: 200, body: { integrations: { 'Segment.io': { apiKey: key } } } });
  expect(settings.headers.get('cache-control')).toBe('public, max-age=3600');
  const config = await get(`/sdk/posthog/array/${key}/config?ip=0`);
  expect(config).toMatchObject({ status: 200, body: { hasFeatureFlags: false, sessionRecording: false } });
  for (const path of ['flags/?v=2', 'flags', 'decide/?v=3', 'decide']) {
    const flags = await edge.post(`/sdk/posthog/${path}`, '', { api_key: key, distinct_id: 'u1' });
    expect([path, flags]).toMatchObject([path, { status: 200, body: { flags: {}, featureFlags: {} } }]);
  }
  for (const unknown of [newApiKey(), 'phc_abc', '%00']) {
    expect((await get(`/sdk/segment/v1/projects/${unknown}/settings`)).status).toBe(401);
    expect((await get(`/sdk/posthog/array/${unknown}/config`)).status).toBe(401);
    expect((await edge.post('/sdk/posthog/flags/', '', { api_key: unknown })).status).toBe(401);
  }
});

test('an unknown key gets 401 on both endpoints, and a body that is not a batch gets 400', async () => {
  const { key } = await edge.app();
  const other = { authorization: `Basic ${Buffer.from('phc_abc:').toString('base64')}` };
  expect((await edge.post('/sdk/segment/v1/batch', '', { batch: [] }, other)).status).toBe(401);
  expect((await edge.post('/sdk/posthog/batch/', '', { api_key: 'phc_abc', batch: [] })).status).toBe(401);
  expect((await edge.post('/sdk/posthog/batch/', '', '{')).status).toBe(400);
  expect((await edge.post('/sdk/posthog/batch/', '', { api_key: key, batch: 7 })).status).toBe(400);
});

test('a body is parsed only after its key has been accepted', async () => {
  const { key } = await edge.app();
  const broken = (api_key: string) => edge.post('/sdk/posthog/batch/', '', `{"api_key":"${api_key}","batch":[}]}`);
  expect([(await broken(newApiKey())).status, (await broken(key)).status]).toEqual([401, 400]);
});

test('errors name fields as the client sent them, and properties that are not an object are rejected with their amount', async () => {
  const { app_id, key } = await edge.app();
  const faults = async (path: string, batch: readonly object[]) => {
    const { body } = await edge.post(path, key, { batch });
    return body.error.details.errors.map(({ field, message }: { field: string; message: string }) => [field, message]);
  };
  const money = JSON.stringify({ revenue: 5, currency: 'EUR' });
  expect(
    await faults('/sdk/segment/v1/batch', [
      { type: 'track', event: 'x' },
      { type: 'track', userId: 'u' },
      { type: 'trakc', event: 'x', userId: 'u' },
      { type: 'track', event: 'x', userId: 'u', properties: money },
    ]),
  ).toMatchObject([
    ['batch[0].anonymousId', 'one of anonymousId, userId and context.device.id is required'],
    ['batch[1].event', 'is required'],
    ['batch[2].type', 'must be one of track, identify, group, alias, page, screen'],
    ['batch[3].properties', 'must be an object or null'],
  ]);
  expect(
    await faults('/sdk/posthog/batch/', [
      { event: 'x' },
      { distinct_id: 'u' },
      { event: 'x', distinct_id: 'u', properties: money },
    ]),
  ).toMatchObject([
    ['batch[0].distinct_id', 'one of distinct_id and properties.$device_id is required'],
    ['batch[1].event', 'is required'],
    ['batch[2].properties', 'must be an object or null'],
  ]);
  expect(recorded(app_id)).toEqual([]);
});

test('a key in the body that belongs to another app than the key in the header gets 400 with its field', async () => {
  const [one, other] = [await edge.app(), await edge.app()];
  for (const [path, field] of [
    ['/sdk/segment/v1/batch', 'writeKey'],
    ['/sdk/posthog/batch/', 'api_key'],
  ] as const) {
    const answer = await edge.post(path, one.key, { batch: [], [field]: other.key });
    expect([answer.status, answer.body.error.details.field]).toEqual([400, field]);
    expect((await edge.post(path, one.key, { batch: [], [field]: one.key })).status).toBe(200);
  }
});

test('two keys in one body get 400 however the second is written, because parsers disagree about which one counts', async () => {
  const [one, other] = [await edge.app(), await edge.app()];
  for (const second of [`"api_key":"${other.key}"`, `"api\\u005fkey":"${other.key}"`]) {
    const answer = await edge.post('/sdk/posthog/batch/', '', `{"api_key":"${one.key}","batch":[],${second}}`);
    expect([answer.status, answer.body.error.details.field]).toEqual([400, 'api_key']);
  }
});

test('an address over its limit is refused before its body is read; a key in a header is not affected', async () => {
  const limited = await SdkEdge.start({ RATE_LIMIT_GENERAL: '2' });
  try {
    const { key } = await limited.app();
    const ask = (api_key: string) => limited.post('/sdk/posthog/batch/', '', { api_key, batch: [] });
    const statuses: number[] = [];
    for (const tried of ['junk', 'junk', 'junk', key]) statuses.push((await ask(tried)).status);
    expect(statuses).toEqual([401, 401, 429, 429]);
    expect((await limited.post('/sdk/posthog/batch/', key, { batch: [] })).status).toBe(200);
  } finally {
    await limited.stop();
  }
});

test('a link is created as in the dashboard, under the rules of the app', async () => {
  const { app_id, key, host } = await edge.app({}, ['shop.example.com']);
  const other = await edge.app();
  const body = {
    path: 'invite/7',
    campaign: 'invites',
    external_id: 'x7',
    fallback_url: 'https://shop.example.com/a',
    unknown: 1,
  };
  const made = await edge.post('/sdk/links', key, body);
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({ app_id, path: '/invite/7', external_id: 'x7' });
  expect(made.body.url).toBe(`https://${host}/${made.body.short_code}`);
  expect(await edge.post('/sdk/links', key, body)).toMatchObject({ status: 200, body: { id: made.body.id } });
  expect((await edge.post('/sdk/links', key, { path: '/a', app_id: other.app_id })).status).toBe(403);
  for (const [bad, field] of [
    [{ campaign: 'x' }, 'path'],
    [{ path: '/a', ios_url: 'https://evil.example.com' }, 'ios_url'],
    [{ path: '/a', fallback_url: 'http://shop.example.com' }, 'fallback_url'],
    [{ path: '/a', short_code: made.body.short_code }, 'short_code'],
  ] as const) {
    const answer = await edge.post('/sdk/links', key, bad);
    expect([answer.status, answer.body.error.details.field]).toEqual([400, field]);
  }
  const at = await Promise.all(
    Array.from({ length: 10 }, () => edge.post('/sdk/links', key, { path: '/b', external_id: 'same' })),
  );
  expect(new Set(at.map(({ body: { id } }) => id)).size).toBe(1);
});

test('one link requested several times at once, with its short code, is created once and returned to all', async () => {
  const { key } = await edge.app();
  for (let round = 0; round < 5; round++) {
    const body = { path: '/c', external_id: `order-${round}`, short_code: `order-${round}` };
    const answers = await Promise.all(Array.from({ length: 4 }, () => edge.post('/sdk/links', key, body)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 201]);
    expect(new Set(answers.map(({ body: { id } }) => id)).size).toBe(1);
    const other = await edge.post('/sdk/links', key, { ...body, external_id: `another-${round}` });
    expect([other.status, other.body.error.details.field]).toEqual([400, 'short_code']);
  }
});
