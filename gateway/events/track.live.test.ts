import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { DAY_MS } from '#common/durations.ts';
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

const event = (more: object = {}) => ({ name: 'open', device_id: 'd1', ...more });

test('an accepted event is in the journal with all its fields', async () => {
  const { app_id, key } = await edge.app();
  const link_id = await edge.link(app_id, 'summer', { campaign: 'Été', utm_source: 'mail' });
  const timestamp = new Date(Date.now() - 60_000).toISOString();
  const sent = {
    name: 'purchase',
    event_id: 'e1',
    timestamp,
    install_id: 'i1',
    user_id: 'u1',
    session_id: 's1',
    link_id,
    click_id: 'clk_x',
    properties: { sku: 'A "1"', nested: { list: [1, 2.5, 'ü'] } },
    revenue: { amount: '12345678901234567.890', currency: 'eur' },
  };
  const answer = await edge.post('/sdk/events', key, { context: { device_id: 'd9', platform: 'ios' }, events: [sent] });
  expect([answer.status, answer.body]).toEqual([202, { accepted: 1, duplicates: 0, rejected: 0, errors: [] }]);
  expect(recorded(app_id)).toMatchObject([
    {
      event_id: 'e1',
      organization_id: edge.organization_id,
      name: 'purchase',
      time: Date.parse(timestamp),
      // Events store only the network of an address.
      ip: '198.51.100.0',
      platform: 'ios',
      install_id: 'i1',
      device_id: 'd9',
      user_id: 'u1',
      session_id: 's1',
      link_id,
      click_id: 'clk_x',
      campaign: 'Été',
      utm_source: 'mail',
      revenue_amount: '12345678901234567.89',
      revenue_currency: 'EUR',
      is_conversion: true,
      properties: JSON.stringify(sent.properties),
    },
  ]);
});

test('a single event, a gzip body and text in any script are accepted', async () => {
  const { app_id, key } = await edge.app();
  const one = await edge.post('/sdk/events', key, event({ name: '購入', properties: { a: '😀' } }));
  const packed = gzipSync(JSON.stringify({ events: [event({ name: 'signup' })] }, null, 2));
  const two = await edge.post('/sdk/events', key, packed, { 'content-encoding': 'gzip' });
  expect([one.status, two.status]).toEqual([202, 202]);
  expect(recorded(app_id).map(({ name, is_conversion, properties }) => [name, is_conversion, properties])).toEqual([
    ['購入', false, '{"a":"😀"}'],
    ['signup', true, ''],
  ]);
});

test('invalid events are rejected one by one, with their index, field and reason', async () => {
  const { app_id, key } = await edge.app();
  const other = await edge.app();
  const foreign = await edge.link(other.app_id, 'theirs');
  const deep = JSON.parse(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`);
  const bad: [object, string][] = [
    [{ device_id: 'd' }, 'name'],
    [event({ name: '' }), 'name'],
    [{ name: 'open' }, 'device_id'],
    [event({ event_id: 'x'.repeat(65) }), 'event_id'],
    [event({ timestamp: 'yesterday' }), 'timestamp'],
    [event({ timestamp: Math.floor(Date.now() / 1000) }), 'timestamp'],
    [event({ timestamp: Date.now() - 91 * DAY_MS }), 'timestamp'],
    [event({ timestamp: Date.now() + 3_700_000 }), 'timestamp'],
    [event({ properties: { text: 'x'.repeat(33_000) } }), 'properties'],
    [event({ properties: deep }), 'properties.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a'],
    [event({ properties: { text: '\ud800' } }), 'properties.text'],
    [event({ properties: { text: 'a\0b' } }), 'properties.text'],
    [event({ revenue: { amount: 'ten', currency: 'EUR' } }), 'revenue.amount'],
    [event({ revenue: { amount: 1, currency: 'EURO' } }), 'revenue.currency'],
    [event({ link_id: foreign }), 'link_id'],
    [event({ link_id: 'junk' }), 'link_id'],
  ];
  const events = [event({ name: 'good' }), ...bad.map(([one]) => one)];
  const answer = await edge.post('/sdk/events', key, { events });
  expect(answer.status).toBe(202);
  expect(answer.body).toMatchObject({ accepted: 1, duplicates: 0, rejected: bad.length });
  expect(answer.body.errors.map(({ index, field }: { index: number; field: string }) => [index, field])).toEqual(
    bad.map(([, field], n) => [n + 1, field]),
  );
  expect(recorded(app_id).map(({ name }) => name)).toEqual(['good']);
});

test('a batch without a valid event gets 400 that names the fields', async () => {
  const { key } = await edge.app();
  const cases: [unknown, string][] = [
    ['', 'body'],
    ['{', 'body'],
    ['[]', 'body'],
    [{ events: [] }, 'events'],
    [{ events: {} }, 'events'],
    [{ events: [{ device_id: 'd' }] }, 'events[0].name'],
    [{ events: [event()], context: [] }, 'context'],
    [{ events: [event()], context: { device_id: 7 } }, 'context.device_id'],
    [{ events: Array.from({ length: 1001 }, () => event()) }, 'events'],
    [{ device_id: 'd' }, 'name'],
    [{ events: [7] }, 'events[0]'],
    [`{"events":[{"name":"a","device_id":"d","properties":{"x":1e400}}]}`, 'events[0].properties.x'],
  ];
  for (const [body, field] of cases) {
    const answer = await edge.post('/sdk/events', key, body);
    expect([answer.status, answer.body.error.code, answer.body.error.details.field]).toEqual([
      400,
      'VALIDATION_ERROR',
      field,
    ]);
  }
  const text = await edge.post('/sdk/events', key, { events: [event()] }, { 'content-type': 'text/plain' });
  expect([text.status, text.body.error.details.field]).toEqual([400, 'content-type']);
  const large = await edge.post('/sdk/events', key, `{"events":[],"x":"${'x'.repeat(1_100_000)}"}`);
  expect([large.status, large.body.error.details.field]).toEqual([400, 'body']);
});

test('an event_id is a duplicate within a batch and in a retry, but not in another app', async () => {
  const { app_id, key } = await edge.app();
  const other = await edge.app();
  const twice = { events: [event({ event_id: 'same' }), event({ event_id: 'same' })] };
  expect((await edge.post('/sdk/events', key, twice)).body).toMatchObject({ accepted: 1, duplicates: 1 });
  const retry = await edge.post('/sdk/events', key, twice);
  expect([retry.status, retry.body.accepted, retry.body.duplicates]).toEqual([202, 0, 2]);
  expect((await edge.post('/sdk/events', other.key, twice)).body).toMatchObject({ accepted: 1, duplicates: 1 });
  expect(recorded(app_id)).toHaveLength(1);
});

test('keys are accepted in a header or as a bearer token; malformed, unknown, rotated, deleted and missing keys get 401 with limit headers', async () => {
  const { app_id, key } = await edge.app();
  const body = { events: [event()] };
  const bearer = await edge.post('/sdk/events', '', body, { authorization: `Bearer ${key}` });
  expect([bearer.status, bearer.headers.get('x-ratelimit-limit')]).toEqual([202, '1000000']);
  const { newApiKey } = await import('#common/api-key.ts');
  for (const bad of ['', 'junk', `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`, newApiKey()]) {
    const answer = await edge.post('/sdk/events', bad, body);
    expect([answer.status, answer.body.error.code]).toEqual([401, 'UNAUTHORIZED']);
    expect(answer.headers.get('x-ratelimit-remaining')).not.toBeNull();
  }
  const next = await edge.rotate(app_id);
  expect((await edge.post('/sdk/events', key, body)).status).toBe(401);
  expect((await edge.post('/sdk/events', next, body)).status).toBe(202);
  await edge.db.execute('UPDATE apps SET deleted_at = now() WHERE id = $1', [app_id]);
  await edge.redis.commands.del(`key:${edge.keys.hash(next).toString('base64url')}`);
  expect((await edge.post('/sdk/events', next, body)).status).toBe(401);
});

test('while Redis is unavailable, keys are read from Postgres and events are accepted', async () => {
  const { app_id, key } = await edge.app();
  await edge.redisServer.kill('SIGKILL');
  try {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => edge.post('/sdk/events', key, { events: [event()] })),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
  } finally {
    await edge.redisServer.restart();
    await expect.poll(() => edge.redis.isReady(), { timeout: 5_000 }).toBe(true);
  }
  expect(recorded(app_id)).toHaveLength(20);
});

test('properties keep every digit of their numbers, in one record and in several', async () => {
  const { app_id, key } = await edge.app();
  const properties = '{"order":12345678901234567890,"rate":0.12345678901234567890}';
  for (const [id, space] of [
    ['e1', ''],
    ['e2', '\n'],
  ]) {
    const body = `{"events":[${space}{"name":"x","event_id":"${id}","device_id":"d","properties":${properties}}]}`;
    expect((await edge.post('/sdk/events', key, body)).status).toBe(202);
  }
  expect(edge.events(app_id).map((event) => event.properties)).toEqual([properties, properties]);
});

test('an event with an unknown currency is rejected, and the message names it', async () => {
  const { key } = await edge.app();
  const sent = { name: 'buy', device_id: 'd', revenue: { amount: 1, currency: 'XYZ' } };
  const answer = await edge.post('/sdk/events', key, sent);
  expect([answer.status, answer.body.error.details.field]).toEqual([400, 'revenue.currency']);
});

test.each([
  ['at 2023', Date.UTC(2023, 2, 1) - Date.now()],
  ['800 days ahead', 800 * DAY_MS],
])('an edge with a clock %s refuses no event or install with its right time', async (_, offMs) => {
  const { app_id, key } = await edge.app();
  const rightNow = Date.now;
  const right = new Date(rightNow() - 60_000).toISOString();
  const wrongClock = vi.spyOn(Date, 'now').mockImplementation(() => rightNow() + offMs);
  try {
    for (const body of [event({ timestamp: right }), { events: [event({ timestamp: right }), event()] }]) {
      expect(await edge.post('/sdk/events', key, body)).toMatchObject({ status: 202, body: { rejected: 0 } });
    }
    const install = { platform: 'ios', device_id: `d${offMs}`, installed_at: right };
    expect((await edge.post('/sdk/install', key, install)).status).toBe(201);
    const tracked = {
      type: 'track',
      event: 'x',
      userId: 'u1',
      timestamp: right,
      sentAt: new Date(rightNow()).toISOString(),
    };
    expect((await edge.post('/sdk/segment/v1/batch', key, { batch: [tracked] })).status).toBe(200);
  } finally {
    wrongClock.mockRestore();
  }
  // Not moved by what the edge takes for the error of the client's clock.
  expect(recorded(app_id).find(({ name }) => name === 'x')?.time).toBe(Date.parse(right));
});
