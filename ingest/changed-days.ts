/**
 * Finds the days of an organization that must be recounted, by comparing the rollups with their state when the cells
 * were computed.
 */
import type { DayCounts } from '#clickhouse/active-installs.ts';
import { DAY_MS } from '#common/durations.ts';

/**
 * For one day: the number of records from which a statement computes its cells, and what the rollups say about them.
 */
export interface ChangedDay {
  readonly records: number;
  readonly seen: number;
}

/** By day since 1970, ascending. */
export interface ChangedDays {
  readonly activity: ReadonlyMap<number, ChangedDay>;
  readonly revenue: ReadonlyMap<number, ChangedDay>;
  readonly installs: ReadonlyMap<number, ChangedDay>;
}

/** Consecutive days within a month that one statement corrects. */
export interface DayRange {
  readonly from: number;
  readonly to: number;
  readonly seen: readonly number[];
}

/** Cells computed from the events of their day and of the adjacent days. */
const ofEvents = {
  activity: { records: 'events', stamp: 'events_stamp', seen: 'activity_seen' },
  revenue: { records: 'paid', stamp: 'paid_stamp', seen: 'revenue_seen' },
} as const;

/**
 * @param rows of one organization, ascending.
 * @param recounted any number: chooses the day that is recounted although nothing shows a change.
 * @param unsettled days of an unfinished erasure: nothing shows which of their rows are already blank.
 */
export function changedDays(
  rows: readonly DayCounts[],
  recounted: number,
  unsettled: ReadonlySet<number> = new Set(),
): ChangedDays {
  const of = new Map(rows.map((row) => [row.day, row]));
  const recorded = rows.filter(({ events, installs }) => events > 0 || installs > 0).map(({ day }) => day);
  const first = recorded[0] ?? Number.POSITIVE_INFINITY;
  const last = recorded.at(-1) ?? first;
  // Records before the first day were dropped because of their age; their cells are dropped later.
  const known = rows.filter(({ day }) => day >= first);
  const installs = new Map(
    known
      .filter((row) => row.installs !== row.installs_seen)
      .map((row) => [row.day, { records: row.installs, seen: row.installs }]),
  );
  // A new install can have events on any later day.
  const [oldestInstall = Number.POSITIVE_INFINITY] = installs.keys();
  const around = (day: number, figure: keyof DayCounts) =>
    [day - 1, day, day + 1].reduce((sum, one) => sum + Number(of.get(one)?.[figure] ?? 0), 0);
  const always = recorded[recounted % recorded.length];
  const days = [...new Set(known.flatMap(({ day }) => [day - 1, day, day + 1]))]
    .filter((one) => one >= first && one <= last + 1)
    .sort((a, b) => a - b);
  const changed = (what: keyof typeof ofEvents) => {
    const { records, stamp, seen } = ofEvents[what];
    const found = new Map<number, ChangedDay>();
    for (const day of days) {
      const one = { records: around(day, records), seen: around(day, stamp) };
      const isNew = one.seen !== (of.get(day)?.[seen] ?? 0) || (day >= oldestInstall && one.records > 0);
      if (isNew || day === always || unsettled.has(day)) found.set(day, one);
    }
    return found;
  };
  return { activity: changed('activity'), revenue: changed('revenue'), installs };
}

/** @param recordsMax maximum records of a range, unless a single day has more. */
export function rangesOf(days: ReadonlyMap<number, ChangedDay>, recordsMax: number): DayRange[] {
  const ranges: { from: number; to: number; seen: number[] }[] = [];
  let sum = 0;
  for (const [day, { records, seen }] of days) {
    const last = ranges.at(-1);
    sum += records;
    if (last?.to === day - 1 && monthOf(day) === monthOf(last.to) && sum <= recordsMax) {
      last.to = day;
      last.seen.push(seen);
    } else {
      ranges.push({ from: day, to: day, seen: [seen] });
      sum = records;
    }
  }
  return ranges;
}

function monthOf(day: number): number {
  return new Date(day * DAY_MS).getUTCMonth();
}
