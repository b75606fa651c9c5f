import { expect, test } from 'vitest';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { eventTime, installTime, isRecordTime, readTime } from './event-time.ts';

test.each<[unknown, number | null]>([
  ['2026-01-31T23:59:59.123Z', Date.UTC(2026, 0, 31, 23, 59, 59, 123)],
  ['2026-01-31T23:59:59Z', Date.UTC(2026, 0, 31, 23, 59, 59)],
  ['2026-01-31T23:59:59.123456+05:30', Date.parse('2026-01-31T23:59:59.123+05:30')],
  ['1769903999123', 1769903999123],
  [1769903999123.7, 1769903999123],
  ['2026-02-30T25:00:00.000Z', null],
  ['2026-13-01T00:00:00.000Z', null],
  ['2026-02-29T10:00:00.000Z', null],
  ['2028-02-29T10:00:00.000Z', Date.UTC(2028, 1, 29, 10)],
  ['2026-09-31T10:00:00.000Z', null],
  ['2026-09-31T10:00:00Z', null],
  ['2026-02-31T10:00:00.5+02:00', null],
  ['2026-01-00T10:00Z', null],
  ['2026-01-01T24:00:00.000Z', null],
  ['2026-01-01T24:00:00Z', null],
  ['2026-01-01T24:00+02:00', null],
  ['2026-01-31 23:59:59', null],
  ['2026-01-31T23:59:59', null],
  [true, null],
])('the time %j is %j', (value, expected) => {
  expect(readTime(value)).toBe(expected);
});

test('the format that JavaScript writes is parsed like Date.parse, whatever was parsed before', () => {
  for (let n = 0; n < 5_000; n++) {
    const text = new Date(Math.floor(Math.random() * 4e12)).toISOString();
    expect(readTime(text), text).toBe(Date.parse(text));
  }
});

test('one misplaced character makes a time invalid, even on the cached day', () => {
  const text = '2026-11-21T09:08:07.654Z';
  const expected = Date.parse(text);
  for (let at = 0; at < text.length; at++) {
    for (const wrong of ['/', ':', 'x', ' ']) {
      expect(readTime(text)).toBe(expected);
      if (text[at] === wrong) continue;
      const given = text.slice(0, at) + wrong + text.slice(at + 1);
      expect(readTime(given), given).toBeNull();
    }
  }
});

test('a time is at most 90 days old and an hour ahead', () => {
  const now = Date.UTC(2026, 5, 1);
  expect(eventTime(undefined, now)).toBe(now);
  expect(eventTime(now - 90 * DAY_MS, now)).toBe(now - 90 * DAY_MS);
  expect(eventTime(now + HOUR_MS, now)).toBe(now + HOUR_MS);
  expect(typeof eventTime(now - 90 * DAY_MS - 1, now)).toBe('string');
  expect(typeof eventTime(now + 3_600_001, now)).toBe('string');
  expect(eventTime(Math.floor(now / 1000), now)).toContain('seconds');
});

test('a time is refused only if both clocks of an edge find it impossible', () => {
  const now = Date.UTC(2026, 5, 1);
  for (const wrong of [Date.UTC(2023, 0, 1), Date.UTC(2029, 0, 1), DAY_MS]) {
    for (const [own, other] of [
      [wrong, now],
      [now, wrong],
    ] as const) {
      for (const time of [now - 80 * DAY_MS, now, now + 50 * MINUTE_MS]) {
        expect(eventTime(time, own, other)).toBe(time);
        expect(installTime(time, own, other)).toBe(time);
      }
      expect(typeof eventTime(Math.max(wrong, now) + 2 * HOUR_MS, own, other)).toBe('string');
    }
  }
});

test.each<[unknown, string]>([
  [0, '2020'],
  [1, 'seconds'],
  [1_795_241_128, 'seconds'],
  [946_684_800_000, '2020'],
  ['2015-01-01T00:00:00Z', '2020'],
  ['', 'ISO 8601'],
  [-1, '2020'],
  [Date.UTC(2101, 0, 1), 'in the future'],
])('an install at %j is refused', (value, reason) => {
  expect(installTime(value, Date.UTC(2026, 5, 1))).toContain(reason);
});

test('a time that the edge accepts for an install is a time that a record can have', () => {
  const now = Date.UTC(2026, 5, 1);
  expect([undefined, null, now, '2020-01-01T00:00:00Z'].map((value) => installTime(value, now))).toEqual([
    now,
    now,
    now,
    Date.UTC(2020, 0, 1),
  ]);
  expect(isRecordTime(Date.UTC(2020, 0, 1))).toBe(true);
  expect([Date.UTC(2020, 0, 1) - 1, Date.UTC(2100, 0, 1), 1.5 + now, 'x'].some(isRecordTime)).toBe(false);
});

test('there is no sixtieth minute and no sixtieth second', () => {
  for (const text of ['2026-01-01T10:60:00.000Z', '2026-01-01T10:00:60.000Z']) expect(readTime(text), text).toBeNull();
});
