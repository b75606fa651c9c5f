/** Which days of an organization must be counted again, from the numbers of records and of those that its cells were made of. */
import type { DayCounts } from '#clickhouse/active-installs.ts';
import { DAY_MS } from '#common/durations.ts';

/** Days since 1970, ascending. */
export interface ChangedDays {
  /** Cells of events, with the number of events that each is made of. */
  readonly activity: ReadonlyMap<number, number>;
  /** Cells of installs, with the number of installs. */
  readonly installs: ReadonlyMap<number, number>;
}

/** Days in sequence within a month, as one statement corrects them. */
export interface DayRange {
  readonly from: number;
  readonly to: number;
  readonly seen: readonly number[];
}

/**
 * @param rows of one organization, ascending.
 * @param recounted any number: chooses the day that is counted again although nothing shows a change.
 */
export function changedDays(rows: readonly DayCounts[], recounted: number): ChangedDays {
  const of = new Map(rows.map((row) => [row.day, row]));
  const recorded = rows.filter(({ events, installs }) => events > 0 || installs > 0).map(({ day }) => day);
  const first = recorded[0] ?? Number.POSITIVE_INFINITY;
  const last = recorded.at(-1) ?? first;
  // Records before the first day were dropped because of their age; what was made of them is dropped later.
  const known = rows.filter(({ day }) => day >= first);
  const installs = new Map(
    known.filter((row) => row.installs !== row.installs_seen).map((row) => [row.day, row.installs]),
  );
  // A new install can have events on any later day.
  const [oldestInstall = Number.POSITIVE_INFINITY] = installs.keys();
  const around = (day: number) => [day - 1, day, day + 1].reduce((sum, one) => sum + (of.get(one)?.events ?? 0), 0);
  const always = recorded[recounted % recorded.length];
  const activity = new Map<number, number>();
  const days = new Set(known.flatMap(({ day }) => [day - 1, day, day + 1]));
  for (const day of [...days].filter((one) => one >= first && one <= last + 1).sort((a, b) => a - b)) {
    const events = around(day);
    const isNew = events !== (of.get(day)?.events_seen ?? 0) || (day >= oldestInstall && events > 0);
    if (isNew || day === always) activity.set(day, events);
  }
  return { activity, installs };
}

/** @param recordsMax of a range, unless one day alone has more. */
export function rangesOf(days: ReadonlyMap<number, number>, recordsMax: number): DayRange[] {
  const ranges: { from: number; to: number; seen: number[] }[] = [];
  let records = 0;
  for (const [day, seen] of days) {
    const last = ranges.at(-1);
    records += seen;
    if (last?.to === day - 1 && monthOf(day) === monthOf(last.to) && records <= recordsMax) {
      last.to = day;
      last.seen.push(seen);
    } else {
      ranges.push({ from: day, to: day, seen: [seen] });
      records = seen;
    }
  }
  return ranges;
}

function monthOf(day: number): number {
  return new Date(day * DAY_MS).getUTCMonth();
}
