import { expect, test } from 'vitest';
import { posthogItem } from './posthog-batch.ts';
import { segmentItem } from './segment-batch.ts';

const track = (more: object) => segmentItem({ type: 'track', event: 'x', userId: 'u1', ...more });

test('an amount without a currency gets none, and what is not an amount stays to be rejected', () => {
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
  ]) {
    expect(posthogItem({ event, distinct_id: 'u1', properties: {} })).toEqual({ call, alias: null });
  }
  expect(segmentItem({ type: 'other', userId: 'u1' })).toMatchObject({ event: { name: undefined } });
});

test('an alias names both sides; one that lacks a side or that no store can hold is ignored', () => {
  const given = { call: 'alias', alias: { id: 'u1', previous_id: 'a1' } };
  expect(segmentItem({ type: 'alias', userId: 'u1', previousId: 'a1' })).toEqual(given);
  expect(posthogItem({ event: '$create_alias', distinct_id: 'a1', properties: { alias: 'u1' } })).toEqual(given);
  const identify = { event: '$identify', distinct_id: 'u1', properties: { $anon_distinct_id: 'a1' } };
  expect(posthogItem(identify)).toEqual({ ...given, call: 'identify' });
  for (const previousId of [undefined, '', 'u1', 'a\0', '\ud800']) {
    expect(segmentItem({ type: 'alias', userId: 'u1', previousId })).toEqual({ call: 'alias', alias: null });
  }
});

test("a message keeps its device's other name, its campaign and its device's address", () => {
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
