import { expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { posthogItem as posthogItemAt } from './posthog-batch.ts';
import { segmentItem as segmentItemAt } from './segment-batch.ts';
import { ourTime } from './sent-time.ts';

const receivedMs = Date.UTC(2026, 10, 22);
const posthogItem = (capture: unknown, sentAt?: unknown) => posthogItemAt(capture, { receivedMs, sentAt });
const segmentItem = (message: unknown, sentAt?: unknown) => segmentItemAt(message, { receivedMs, sentAt });
const track = (more: object, sentAt?: unknown) =>
  segmentItem({ type: 'track', event: 'x', userId: 'u1', ...more }, sentAt);

test('an amount without a currency gets none, and an invalid amount is kept, so that it is rejected', () => {
  for (const [properties, revenue] of [
    [{ revenue: 5 }, { amount: 5 }],
    [
      { revenue: 5, currency: 'EURO' },
      { amount: 5, currency: 'EURO' },
    ],
    [
      { revenue: 'free', currency: 'EUR' },
      { amount: 'free', currency: 'EUR' },
    ],
    [
      { revenue: -5, currency: 'EUR' },
      { amount: -5, currency: 'EUR' },
    ],
    [{ revenue: null }, undefined],
    [{ currency: 'EUR' }, undefined],
  ]) {
    expect(track({ properties })).toMatchObject({ event: { revenue } });
    expect(posthogItem({ event: 'x', distinct_id: 'u1', properties })).toMatchObject({ event: { revenue } });
  }
});

test('a client is judged by whichever of our clocks is nearer to its own, if they differ by more than an hour', () => {
  const year = 365 * DAY_MS;
  for (const wrong of [receivedMs + year, receivedMs - year]) {
    for (const sentAt of [receivedMs, receivedMs - 3 * DAY_MS, new Date(receivedMs + HOUR_MS).toISOString()]) {
      expect(ourTime({ receivedMs, sentAt }, wrong)).toBe(receivedMs);
      expect(ourTime({ receivedMs: wrong, sentAt }, receivedMs)).toBe(receivedMs);
    }
    for (const sentAt of [undefined, 'yesterday'])
      expect(ourTime({ receivedMs: wrong, sentAt }, receivedMs)).toBe(receivedMs);
  }
  expect(ourTime({ receivedMs, sentAt: 0 }, receivedMs - HOUR_MS)).toBe(receivedMs);
});

test('calls that identify a user or report a page view are not events', () => {
  for (const type of ['identify', 'group', 'alias', 'page', 'screen']) {
    expect(segmentItem({ type, userId: 'u1', name: 'Home' })).toEqual({ call: type, alias: null });
  }
  for (const [event, call] of [
    ['$identify', 'identify'],
    ['$set', 'identify'],
    ['$groupidentify', 'group'],
    ['$pageview', 'page'],
    ['$screen', 'screen'],
    ['$autocapture', 'automatic'],
  ]) {
    expect(posthogItem({ event, distinct_id: 'u1', properties: {} })).toEqual({ call, alias: null });
  }
  expect(segmentItem({ type: 'other', userId: 'u1' })).toMatchObject({ event: { name: undefined } });
});

test('an alias has both identifiers; one with a missing or unstorable identifier is ignored', () => {
  const given = { call: 'alias', alias: { id: 'u1', previous_id: 'a1' } };
  expect(segmentItem({ type: 'alias', userId: 'u1', previousId: 'a1' })).toEqual(given);
  expect(posthogItem({ event: '$create_alias', distinct_id: 'a1', properties: { alias: 'u1' } })).toEqual(given);
  const identify = { event: '$identify', distinct_id: 'u1', properties: { $anon_distinct_id: 'a1' } };
  expect(posthogItem(identify)).toEqual({ ...given, call: 'identify' });
  for (const previousId of [undefined, '', 'u1', 'a\0', '\ud800']) {
    expect(segmentItem({ type: 'alias', userId: 'u1', previousId })).toEqual({ call: 'alias', alias: null });
  }
});

test('a message keeps its device’s alias, its campaign and its device’s address', () => {
  const context = {
    device: { id: 'd1' },
    ip: '203.0.113.7',
    campaign: { name: 'spring', source: 'mail', medium: 'email', term: 1, content: 'b\0' },
  };
  const utm = { utm_source: 'mail', utm_medium: 'email', utm_campaign: 'spring', utm_term: '1', utm_content: '' };
  expect(track({ anonymousId: 'a1', context })).toMatchObject({
    event: { device_id: 'a1' },
    extras: { device_ip: '203.0.113.7', aliases: ['d1'], utm },
  });
  expect(track({ context })).toMatchObject({ event: { device_id: 'd1' }, extras: { aliases: [] } });
});

test('a browser SDK’s capture belongs to the device until the person is identified, and has the campaign of the visit', () => {
  const properties = { $device_id: 'd1', distinct_id: 'd1', utm_source: 'news', utm_term: 'a\0' };
  const event = { device_id: 'd1', user_id: undefined };
  const utm = { utm_source: 'news', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
  expect(posthogItem({ event: 'x', properties })).toMatchObject({ event, extras: { utm } });
  const identified = { ...properties, distinct_id: 'u1' };
  expect(posthogItem({ event: 'x', properties: identified })).toMatchObject({ event: { user_id: 'u1' } });
});

test('an offset gives the time of a capture, unless a timestamp is given; an impossible offset is ignored', () => {
  const at = (more: object) => posthogItem({ event: 'x', distinct_id: 'u1', ...more });
  expect(at({ offset: 1_500 })).toMatchObject({ event: { timestamp: receivedMs - 1_500 } });
  expect(at({ offset: 5, timestamp: '2026-11-01T00:00:00Z' })).toMatchObject({
    event: { timestamp: '2026-11-01T00:00:00Z' },
  });
  for (const offset of [-1, receivedMs * 2, '7', Number.NaN])
    expect(at({ offset })).toMatchObject({ event: { timestamp: undefined } });
});

const at = (ms: number) => new Date(receivedMs + ms).toISOString();
const hour = 3_600_000;

test.each([2 * hour, -2 * hour, 5 * 8_760 * hour, -receivedMs])(
  'an event from a clock that is %i ms off gets its real time if its client reports when it sent it',
  (off) => {
    const [timestamp, sentAt] = [at(off - 90_000), at(off)];
    const corrected = { event: { timestamp: receivedMs - 90_000 } };
    expect(track({ timestamp, sentAt })).toMatchObject(corrected);
    expect(track({ timestamp }, sentAt)).toMatchObject(corrected);
    expect(posthogItem({ event: 'x', distinct_id: 'u1', timestamp }, sentAt)).toMatchObject(corrected);
    expect(posthogItem({ event: 'x', distinct_id: 'u1', timestamp }, String(receivedMs + off))).toMatchObject(
      off === -receivedMs ? { event: { timestamp } } : corrected,
    );
  },
);

test('a time stays as it was sent if the clock is about right, or its error is unknown', () => {
  for (const [timestamp, sentAt] of [
    [at(-hour), at(-4 * 60_000)],
    [at(-hour), undefined],
    [at(-hour), 'yesterday'],
    ['yesterday', at(-hour)],
  ]) {
    expect(track({ timestamp, sentAt })).toMatchObject({ event: { timestamp } });
    expect(posthogItem({ event: 'x', distinct_id: 'u1', timestamp }, sentAt)).toMatchObject({ event: { timestamp } });
  }
});
