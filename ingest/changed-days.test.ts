import { expect, test } from 'vitest';
import type { DayCounts } from '#clickhouse/active-installs.ts';
import { changedDays, rangesOf } from './changed-days.ts';

const june = Date.UTC(2026, 5, 1) / 86_400_000;

/** Events and installs of days in sequence from 1 June, all of them counted already. */
function counted(events: readonly number[], installs: readonly number[] = []): DayCounts[] {
  const at = (day: number) => events[day] ?? 0;
  return events.map((count, day) => ({
    organization_id: 'org',
    day: june + day,
    events: count,
    installs: installs[day] ?? 0,
    events_seen: at(day - 1) + count + at(day + 1),
    installs_seen: installs[day] ?? 0,
  }));
}

const daysOf = (rows: readonly DayCounts[], recounted = 0) => {
  const { activity, installs } = changedDays(rows, recounted);
  return {
    activity: [...activity.keys()].map((day) => day - june),
    installs: [...installs.keys()].map((day) => day - june),
  };
};

test('without any change, one day is counted again each time', () => {
  const rows = counted([5, 5, 5]);
  // The day after the last one has never been counted.
  expect([0, 1, 2, 3].map((run) => daysOf(rows, run).activity.filter((day) => day < 3))).toEqual([[0], [1], [2], [0]]);
});

test('a new event changes its day and the days next to it', () => {
  const rows = counted([5, 5, 5, 5, 5]).map((row) => (row.day === june + 2 ? { ...row, events: 6 } : row));
  expect(daysOf(rows).activity).toEqual([0, 1, 2, 3, 5]);
});

test('a new install changes its day and every later one with events', () => {
  const rows = counted([5, 5, 5, 5], [1, 1, 1, 1]).map((row) => (row.day === june + 2 ? { ...row, installs: 2 } : row));
  expect(daysOf(rows)).toEqual({ activity: [0, 2, 3, 4], installs: [2] });
});

test('days whose records were dropped are left as they are', () => {
  const rows = counted([5, 5, 5, 5], [1, 1, 1, 1]).map((row) =>
    row.day < june + 2 ? { ...row, events: 0, installs: 0 } : row,
  );
  expect(daysOf(rows, 1)).toEqual({ activity: [2, 3, 4], installs: [] });
});

test('ranges end with gaps, months and many records', () => {
  const days = (list: number[]) => new Map(list.map((day) => [june + day, 10]));
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
  expect(rangesOf(days([1, 2]), 1_000)).toEqual([{ from: june + 1, to: june + 2, seen: [10, 10] }]);
});
