import { expect, test } from 'vitest';
import { isId, newId } from '#common/ids.ts';
import { aroundEventBatch, decodeEventBatch, isEventBatch, madeId } from './event-batch.ts';
import { decodeEvent, eventJson, eventPrefix } from './event-record.ts';

const now = 1_790_000_000_000;
const id_base = newId('evt', now);
const link_id = newId('lnk', now);
const origin = {
  organization_id: newId('org', now),
  app_id: newId('app', now),
  received_at: now,
  ip: '192.0.2.1',
  privacy_mode: 'full_ip' as const,
  defaults: { platform: 'ios', user_id: 'u"1' },
};
const facts = {
  conversion_events: ['signup'],
  links: `{"${link_id}":{"campaign":"sale"}}`,
  id_base,
  skip: [] as number[],
};

function decoded(body: string, skip: number[] = []) {
  const members = decodeEventBatch(aroundEventBatch(origin, { ...facts, skip }).join(body));
  if (typeof members === 'string') throw new Error(members);
  return members;
}

test('a batch is read as its events would be one by one', () => {
  const sent = {
    name: 'buy',
    event_id: 'e1',
    timestamp: now - 5,
    device_id: 'd',
    link_id,
    properties: { a: [1, 'ü'] },
    revenue: { amount: 1.5, currency: 'eur' },
  };
  const [member] = decoded(JSON.stringify({ events: [sent], context: {} }));
  const decision = {
    event_id: 'e1',
    time: now - 5,
    revenue_amount: '1.5',
    revenue_currency: 'EUR',
    is_conversion: true,
    is_id_made: false,
    linkFields: ',"campaign":"sale"',
  };
  expect(member).toEqual({ at: 0, event: decodeEvent(eventJson(eventPrefix(origin), decision, JSON.stringify(sent))) });
});

test('properties keep every digit of their numbers', () => {
  const properties = '{"n":12345678901234567890,"m":[0.10000000000000000000001],"t":"a b"}';
  const plain = '{"name":"y","properties":{"n":1}}';
  const members = decoded(`{"events":[{"name":"x", "properties": ${properties} },${plain}]}`);
  expect(members).toMatchObject([{ event: { properties } }, { event: { properties: '{"n":1}' } }]);
  const decision = {
    ...{ event_id: 'e', time: now, revenue_amount: '', revenue_currency: '', is_conversion: false, is_id_made: false },
    linkFields: '',
  };
  const line = eventJson(eventPrefix(origin), decision, `{"name":"x","properties":${properties}}`);
  expect(decodeEvent(line)).toMatchObject({ properties });
});

test('skipped events are left out, and missing ids are generated, each unique and always the same', () => {
  const body = JSON.stringify({
    events: Array.from({ length: 1000 }, (_, n) => ({ name: n === 7 ? 'signup' : 'open', timestamp: now })),
  });
  const members = decoded(body, [0, 999]);
  expect(members.map(({ at }) => at)).toEqual(Array.from({ length: 998 }, (_, n) => n + 1));
  const ids = members.map(({ event }) => (typeof event === 'string' ? event : event.event_id));
  expect(new Set(ids).size).toBe(998);
  expect(ids.every((id) => isId('evt', id))).toBe(true);
  expect(ids[4]).toBe(madeId(id_base, 5));
  expect(members[6]?.event).toMatchObject({ is_conversion: true, is_id_made: true, user_id: 'u"1', platform: 'ios' });
});

test('a bare event is a batch of one', () => {
  expect(decoded('{"name":"open","device_id":"d"}')).toMatchObject([
    { at: 0, event: { name: 'open', device_id: 'd', time: now } },
  ]);
});

test('an invalid event gives a reason, its neighbours are events, and nothing throws', () => {
  const deep = `${'{"a":'.repeat(3_000)}1${'}'.repeat(3_000)}`;
  const bad = [
    '7',
    '{"name":"x","properties":{"n":1e400}}',
    `{"name":"x","properties":${deep}}`,
    '{"name":"x","properties":{"t":"\\u0000"}}',
    '{"name":""}',
  ];
  const members = decoded(`{"events":[{"name":"ok"},${bad.join(',')},{"name":"ok"}]}`);
  expect(members.map(({ event }) => typeof event === 'string')).toEqual([false, true, true, true, true, true, false]);
  for (const line of ['', '{', '[]', '{"batch":1}', '{"batch":{"id_base":"x","body":{"events":7}}}']) {
    expect(typeof decodeEventBatch(line)).toBe('string');
  }
});

test('what an edge has accepted is stored: an invalid time, an unknown currency, texts of surrogate pairs, a head full of escapes', () => {
  expect(
    decoded('{"name":"x","timestamp":"2015-02-31T00:00:00Z","revenue":{"amount":1,"currency":"XYZ"}}'),
  ).toMatchObject([{ event: { time: now, revenue_currency: 'XYZ' } }]);
  const name = '😀'.repeat(128);
  expect(decoded(JSON.stringify({ name, device_id: '😀'.repeat(256) }))).toMatchObject([{ event: { name } }]);
  const texts = { install_id: '😀'.repeat(128), device_id: '😀'.repeat(256), user_id: '😀'.repeat(256) };
  const line = aroundEventBatch({ ...origin, defaults: { ...texts, session_id: '😀'.repeat(128) } }, facts).join(
    '{"name":"x"}',
  );
  expect(isEventBatch(line)).toBe(true);
  expect(decodeEventBatch(line)).toMatchObject([{ event: texts }]);
});

const decision = {
  event_id: 'e',
  time: now,
  revenue_amount: '',
  revenue_currency: '',
  is_conversion: false,
  is_id_made: false,
  linkFields: '',
};

test('an event that mentions batches is not mistaken for one', () => {
  for (const properties of [{ '"batch":{"id_base":"': 1 }, { batch: { id_base: '' } }]) {
    const sent = JSON.stringify({ name: 'x', properties });
    expect(isEventBatch(eventJson(eventPrefix(origin), decision, sent))).toBe(false);
  }
  expect(isEventBatch(aroundEventBatch(origin, facts).join('{}'))).toBe(true);
});

test('the fields of an event take precedence over those of its request', () => {
  const both = { name: 'x', user_id: 'own', platform: 'web' };
  expect(decoded(JSON.stringify(both))).toMatchObject([{ event: { user_id: 'own', platform: 'web' } }]);
});

test('properties with an unpaired surrogate or a NUL in a key are rejected', () => {
  for (const text of ['{"t":"\\ud800"}', '{"\\u0000":1}', '{"\\udc00":1}'])
    expect(decoded(`{"name":"x","properties":${text}}`)).toEqual([{ at: 0, event: 'bad_field' }]);
});

test('the line of an event is read back, or rejected with a reason, without an address that its app does not want', () => {
  const paid = { ...decision, revenue_amount: '1', revenue_currency: 'EUR' };
  const line = eventJson(eventPrefix(origin), paid, '{"name":"x"}');
  expect(decodeEvent(line)).toMatchObject({ name: 'x' });
  expect(decodeEvent(line.replace('"x"', '"\\ud800"'))).toBe('bad_text');
  expect(decodeEvent(line.replace('amount":"1"', 'amount":"1e5"'))).toBe('bad_field');
  expect(decodeEvent(line.replace('"app_0', '"lnk_0'))).toBe('bad_field');
  expect(eventPrefix({ ...origin, privacy_mode: 'no_ip' })).not.toContain('192.0.2.1');
});
