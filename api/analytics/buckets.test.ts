import { expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { bucketStarts, bucketsMax, granularityFor } from './buckets.ts';
import { decimalRatio } from './metrics.ts';
import { readFilters } from './parameters.ts';
import { periodOf, previousOf } from './period.ts';
import { utc, type Zone, zoneNamed } from './zone.ts';

function zone(name: string): Zone {
  const found = zoneNamed(name);
  if (!found) throw new Error(name);
  return found;
}

function starts(name: string, granularity: 'hour' | 'day' | 'week' | 'month', start: string, end: string): string[] {
  const found = bucketStarts(Date.parse(start), Date.parse(end), granularity, zone(name)) ?? [];
  return found.map((ms) => new Date(ms).toISOString().slice(0, 16));
}

const day = ['2026-03-28T23:00', '2026-03-29T22:00'];
test.each([
  ['a day of 23 hours', 'Europe/Berlin', 'day', '2026-03-28T23:00:00Z', '2026-03-30T22:00:00Z', day],
  [
    'a day of 25 hours',
    'America/New_York',
    'day',
    '2026-11-01T04:00:00Z',
    '2026-11-02T06:00:00Z',
    ['2026-11-01T04:00', '2026-11-02T05:00'],
  ],
  [
    'half an hour off',
    'Asia/Kolkata',
    'hour',
    '2026-01-01T00:30:00Z',
    '2026-01-01T02:30:00Z',
    ['2026-01-01T00:30', '2026-01-01T01:30'],
  ],
  [
    'three quarters off',
    'Asia/Kathmandu',
    'day',
    '2026-01-01T00:00:00Z',
    '2026-01-02T00:00:00Z',
    ['2025-12-31T18:15', '2026-01-01T18:15'],
  ],
  [
    'a clock put back by half an hour',
    'Australia/Lord_Howe',
    'hour',
    '2026-04-04T13:00:00Z',
    '2026-04-04T17:30:00Z',
    ['2026-04-04T13:00', '2026-04-04T14:00', '2026-04-04T15:00', '2026-04-04T15:30', '2026-04-04T16:30'],
  ],
  [
    'a clock put forward by half an hour',
    'Australia/Lord_Howe',
    'hour',
    '2026-10-03T14:30:00Z',
    '2026-10-03T17:00:00Z',
    ['2026-10-03T14:30', '2026-10-03T15:30', '2026-10-03T16:00'],
  ],
  [
    'a midnight that does not exist',
    'Africa/Cairo',
    'day',
    '2026-04-22T22:00:00Z',
    '2026-04-24T21:00:00Z',
    ['2026-04-22T22:00', '2026-04-23T22:00'],
  ],
  [
    'a midnight that comes twice',
    'America/Havana',
    'day',
    '2026-10-31T04:00:00Z',
    '2026-11-02T05:00:00Z',
    ['2026-10-31T04:00', '2026-11-01T04:00'],
  ],
  [
    'a day that does not exist',
    'Pacific/Apia',
    'day',
    '2011-12-29T10:00:00Z',
    '2011-12-31T10:00:00Z',
    ['2011-12-29T10:00', '2011-12-30T10:00'],
  ],
  [
    'weeks that begin on Monday',
    'UTC',
    'week',
    '2026-01-01T00:00:00Z',
    '2026-01-13T00:00:00Z',
    ['2025-12-29T00:00', '2026-01-05T00:00', '2026-01-12T00:00'],
  ],
  [
    'months',
    'Europe/Berlin',
    'month',
    '2026-02-10T00:00:00Z',
    '2026-04-01T00:00:00Z',
    ['2026-01-31T23:00', '2026-02-28T23:00', '2026-03-31T22:00'],
  ],
] as const)('buckets follow local time: %s', (_, name, granularity, start, end, wanted) => {
  expect(starts(name, granularity, start, end)).toEqual(wanted);
});

testCostlyCases(
  ['Europe/Berlin', 'Australia/Lord_Howe', 'UTC', 'America/Sao_Paulo', 'Asia/Beirut', 'Pacific/Chatham'],
  2,
  'every bucket of %s begins after the previous one, at a full hour or midnight in local time',
  async (name) => {
    const where = zone(name);
    for (const granularity of ['hour', 'day', 'week', 'month'] as const) {
      const from = Date.parse('2025-09-15T07:31:00Z');
      const days = granularity === 'hour' ? 60 : 1_000;
      const found = bucketStarts(from, from + days * DAY_MS, granularity, where);
      if (!found) throw new Error(granularity);
      expect(found[0]).toBeLessThanOrEqual(from);
      const unit = granularity === 'hour' ? HOUR_MS : DAY_MS;
      const wrong = found.filter((start, at) => {
        const isChange = where.localAt(start) - where.localAt(start - 1) !== 1;
        return (at > 0 && start <= (found[at - 1] ?? 0)) || (!isChange && where.localAt(start) % unit !== 0);
      });
      expect(wrong).toEqual([]);
    }
  },
);

test(`more than ${bucketsMax} buckets are refused immediately, however long the range`, () => {
  const from = Date.UTC(2000, 0, 1);
  expect(bucketStarts(from, from + bucketsMax * HOUR_MS, 'hour', utc)?.length).toBe(bucketsMax);
  expect(bucketStarts(from, from + bucketsMax * HOUR_MS + 1, 'hour', utc)).toBeNull();
  expect(bucketStarts(from, Date.UTC(2100, 0, 1), 'hour', zone('Europe/Berlin'))).toBeNull();
});

test('the granularity follows the range', () => {
  const of = (days: number) => granularityFor(0, days * DAY_MS);
  expect([1, 2, 3, 30, 90, 120, 365].map(of)).toEqual(['hour', 'hour', 'day', 'day', 'day', 'week', 'month']);
});

test('the previous period has the same number of local days, even across a clock change', () => {
  const berlin = zone('Europe/Berlin');
  const [start_ms, end_ms] = [Date.parse('2026-03-29T22:00:00Z'), Date.parse('2026-03-30T22:00:00Z')];
  const before = previousOf({ start_ms, end_ms, zone: berlin }, end_ms);
  expect([before.start_ms, before.end_ms].map((ms) => new Date(ms).toISOString())).toEqual([
    '2026-03-28T23:00:00.000Z',
    '2026-03-29T22:00:00.000Z',
  ]);
});

test.each<[string, string, string, string]>([
  ['7d', 'UTC', '2026-04-10T10:05:00Z', '2026-03-28T00:00:00.000Z 2026-04-03T10:15:00.000Z'],
  ['7d', 'UTC', '2026-04-10T00:00:00Z', '2026-03-28T00:00:00.000Z 2026-04-03T00:00:00.000Z'],
  ['7d', 'Europe/Berlin', '2026-04-01T10:00:00Z', '2026-03-18T23:00:00.000Z 2026-03-25T11:00:00.000Z'],
  ['24h', 'UTC', '2026-04-10T10:30:00Z', '2026-04-08T09:00:00.000Z 2026-04-09T09:30:00.000Z'],
  ['mtd', 'UTC', '2026-04-01T00:05:00Z', '2026-03-31T00:00:00.000Z 2026-03-31T00:15:00.000Z'],
])('%s in %s at %s is compared with the previous period to date: %s', async (interval, timezone, now, expected) => {
  const nowMs = Date.parse(now);
  const period = await periodOf({ interval: interval as '7d', timezone }, nowMs, async () => 0);
  if ('code' in period) throw new Error(period.message);
  const { start_ms, end_ms } = previousOf(period, nowMs);
  expect([start_ms, end_ms].map((ms) => new Date(ms).toISOString()).join(' ')).toBe(expected);
});

test('24h includes every minute of the last 24 hours, and an end without a start means 30 days before it', async () => {
  const nowMs = Date.parse('2026-04-10T10:59:00Z');
  const of = async (query: object) => {
    const period = await periodOf(query, nowMs, async () => 0);
    if ('code' in period) throw new Error(period.message);
    return [period.start_ms, period.end_ms].map((ms) => new Date(ms).toISOString());
  };
  expect(await of({ interval: '24h' })).toEqual(['2026-04-09T10:00:00.000Z', '2026-04-10T11:00:00.000Z']);
  expect(await of({ end: '2026-03-31' })).toEqual(['2026-03-02T00:00:00.000Z', '2026-04-01T00:00:00.000Z']);
  expect(await of({ end: '2026-03-31T05:06:07Z' })).toEqual(['2026-03-01T05:06:07.000Z', '2026-03-31T05:06:07.000Z']);
});

test.each<[string, string[], boolean]>([
  ['a', ['a'], false],
  ['a,b', ['a', 'b'], false],
  ['-a', ['a'], true],
  ['-a, -b', ['a', 'b'], true],
  [' a ', ['a'], false],
  ['', [''], false],
  ['a\\,b,c', ['a,b', 'c'], false],
  ['\\-a', ['-a'], false],
  ['-\\-a', ['-a'], true],
  ['--a', ['-a'], true],
  ['\\ a\\ ', [' a '], false],
  ['a\\\\,b', ['a\\', 'b'], false],
  ['C:\\dir', ['C:\\dir'], false],
])('the filter %j selects %j', (text, values, isExclusion) => {
  expect(readFilters({ campaign: text })).toEqual({ campaign: { values, isExclusion } });
});

test.each<[string, string, number | null]>([
  ['110', '100', 0.1],
  ['0.3', '0.1', 2],
  ['90', '-100', 1.9],
  ['-110', '-100', -0.1],
  ['0', '12345678901234567890.000000001', -1],
  ['1', '3', -0.666667],
  ['5', '0', null],
])('%s after %s is a change of %j', (now, before, expected) => {
  expect(decimalRatio(now, before)).toBe(expected);
});

test('the last 24 hours extend beyond now, even in an hour that is longer because the clock was set back', async () => {
  const around = Date.parse('2027-04-03T15:00:00Z');
  for (let minute = -120; minute <= 120; minute += 5) {
    const nowMs = around + minute * 60_000;
    const period = await periodOf({ interval: '24h', timezone: 'Australia/Lord_Howe' }, nowMs, async () => 0);
    if (!('end_ms' in period)) throw new Error('refused');
    expect(period.end_ms).toBeGreaterThan(nowMs);
    expect(period.start_ms).toBeLessThanOrEqual(nowMs - DAY_MS);
  }
});

test('the hour in which the clock is set back by half an hour begins where it first did', () => {
  const start = zone('Australia/Lord_Howe').startOfHour(Date.parse('2026-04-04T15:10:00Z'));
  expect(start).toBe(Date.parse('2026-04-04T14:00:00Z'));
});

test('a local time that is skipped maps to the end of the gap', () => {
  expect(zone('Europe/Berlin').instantOf(Date.UTC(2026, 2, 29, 2, 30))).toBe(Date.parse('2026-03-29T01:00:00Z'));
});

test('a ratio of change keeps its decimal places', () => {
  expect(decimalRatio('110.5', '100')).toBe(0.105);
});
