import { expect, test } from 'vitest';
import type { DayCounts } from '#clickhouse/active-installs.ts';
import { changedDays, rangesOf } from './changed-days.ts';

const june = Date.UTC(2026, 5, 1) / 86_400_000;

/** Events and installs on consecutive days from 1 June, all of them already counted. Every event has its own batch. */
function counted(
  events: readonly number[],
  { installs = [], paid = [] }: { readonly installs?: readonly number[]; readonly paid?: readonly number[] } = {},
): DayCounts[] {
  const around = (of: readonly number[], day: number) => (of[day - 1] ?? 0) + (of[day] ?? 0) + (of[day + 1] ?? 0);
  return events.map((count, day) => ({
    organization_id: 'org',
    day: june + day,
    events: count,
    paid: paid[day] ?? 0,
    installs: installs[day] ?? 0,
    events_stamp: 10 * count,
    paid_stamp: 10 * (paid[day] ?? 0),
    activity_seen: 10 * around(events, day),
    revenue_seen: 10 * around(paid, day),
    installs_seen: installs[day] ?? 0,
  }));
}

const daysOf = (rows: readonly DayCounts[], recounted = 0) => {
  const { activity, revenue, installs } = changedDays(rows, recounted);
  const of = (days: ReadonlyMap<number, unknown>) => [...days.keys()].map((day) => day - june);
  return { activity: of(activity), revenue: of(revenue), installs: of(installs) };
};
const changedOn = (rows: readonly DayCounts[], day: number, changes: Partial<DayCounts>) =>
  rows.map((row) => (row.day === june + day ? { ...row, ...changes } : row));

test('without any change, one day is recounted each time', () => {
  const rows = counted([5, 5, 5]);
  // The day after the last one has never been counted.
  expect([0, 1, 2, 3].map((run) => daysOf(rows, run).activity.filter((day) => day < 3))).toEqual([[0], [1], [2], [0]]);
});

test('the days of an unfinished erasure are recounted, although no figure shows a change', () => {
  const rows = counted([5, 5, 5, 5, 5], { installs: [1, 1, 1, 1, 1] });
  const { activity, revenue, installs } = changedDays(rows, 0, new Set([june + 2, june + 3]));
  for (const one of [activity, revenue])
    expect([...one.keys()].map((day) => day - june)).toEqual(expect.arrayContaining([2, 3]));
  expect(activity.has(june + 1)).toBe(false);
  expect(installs.size).toBe(0);
});

test('a new event changes its day and the adjacent days', () => {
  const rows = changedOn(counted([5, 5, 5, 5, 5]), 2, { events: 6, events_stamp: 60 });
  expect(daysOf(rows)).toEqual({ activity: [0, 1, 2, 3, 5], revenue: [0], installs: [] });
});

test('an event with revenue changes activity and revenue', () => {
  const rows = counted([5, 5, 5, 5, 5], { paid: [1, 1, 1, 1, 1] });
  const changed = changedOn(rows, 2, { events: 6, events_stamp: 60, paid: 2, paid_stamp: 20 });
  expect(daysOf(changed)).toEqual({ activity: [0, 1, 2, 3, 5], revenue: [0, 1, 2, 3, 5], installs: [] });
});

test('a batch that leaves the figures unchanged changes its day and the adjacent days', () => {
  const rows = counted([5, 5, 5, 5, 5], { paid: [1, 1, 1, 1, 1] });
  const changed = changedOn(rows, 2, { events_stamp: 51, paid_stamp: 11 });
  expect(daysOf(changed)).toEqual({ activity: [0, 1, 2, 3, 5], revenue: [0, 1, 2, 3, 5], installs: [] });
});

test('a new install changes its day and every later day with events', () => {
  const rows = changedOn(counted([5, 5, 5, 5], { installs: [1, 1, 1, 1], paid: [0, 0, 1, 0] }), 2, { installs: 2 });
  expect(daysOf(rows)).toEqual({ activity: [0, 2, 3, 4], revenue: [0, 2, 3], installs: [2] });
});

test('days whose records were dropped are left unchanged', () => {
  const rows = counted([5, 5, 5, 5], { installs: [1, 1, 1, 1] }).map((row) =>
    row.day < june + 2 ? { ...row, events: 0, events_stamp: 0, installs: 0 } : row,
  );
  expect(daysOf(rows, 1)).toEqual({ activity: [2, 3, 4], revenue: [3], installs: [] });
});

test('ranges end at gaps, at the end of a month, and at the maximum number of records', () => {
  const days = (list: number[]) => new Map(list.map((day) => [june + day, { records: 10, seen: 7 }]));
  const found = (list: number[], max = 1_000) =>
    rangesOf(days(list), max).map(({ from, to }) => [from - june, to - june]);
  expect(found([1, 2, 4])).toEqual([
    [1, 2],
    [4, 4],
  ]);
  expect(found([28, 29, 30, 31])).toEqual([
    [28, 29],
    [30, 31],
  ]);
  expect(found([1, 2, 3], 20)).toEqual([
    [1, 2],
    [3, 3],
  ]);
  expect(rangesOf(days([1, 2]), 1_000)).toEqual([{ from: june + 1, to: june + 2, seen: [7, 7] }]);
});
