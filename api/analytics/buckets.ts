/** The buckets of a time series: all buckets that overlap the range, in order, each with its start. */
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import type { Zone } from './zone.ts';

export const granularities = ['hour', 'day', 'week', 'month'] as const;
export type Granularity = (typeof granularities)[number];

export const bucketsMax = 1_500;

/** Minimum length of each granularity, for rejecting a range that is far too long without iterating over it. */
const shortestMs: Record<Granularity, number> = {
  hour: HOUR_MS,
  day: 23 * HOUR_MS,
  week: 7 * DAY_MS - 2 * HOUR_MS,
  month: 28 * DAY_MS - 2 * HOUR_MS,
};

/** Hours for up to two days, days for a quarter, weeks for half a year, then months. */
export function granularityFor(startMs: number, endMs: number): Granularity {
  const days = (endMs - startMs) / DAY_MS;
  if (days <= 2.1) return 'hour';
  if (days <= 93) return 'day';
  return days <= 184 ? 'week' : 'month';
}

/**
 * Starts of all buckets that overlap [startMs, endMs), as epoch milliseconds. The first may be before startMs. Null if
 * there are more than `bucketsMax`.
 */
export function bucketStarts(startMs: number, endMs: number, granularity: Granularity, zone: Zone): number[] | null {
  // Twice the maximum, because a clock change can halve an hour.
  if ((endMs - startMs) / shortestMs[granularity] > bucketsMax * 2) return null;
  const starts: number[] = [];
  for (let at = firstStart(startMs, granularity, zone); at < endMs; at = nextStart(at, granularity, zone)) {
    if (starts.length === bucketsMax) return null;
    starts.push(at);
  }
  return starts;
}

function firstStart(epochMs: number, granularity: Granularity, zone: Zone): number {
  switch (granularity) {
    case 'hour':
      return zone.startOfHour(epochMs);
    case 'day':
      return zone.startOfDay(epochMs);
    case 'week':
      return zone.addWeeks(epochMs, 0);
    case 'month':
      return zone.addMonths(epochMs, 0);
  }
}

function nextStart(at: number, granularity: Granularity, zone: Zone): number {
  // A local day can be missing altogether (Apia, 30 December 2011); then the next step is used.
  for (let step = 1; step <= 3; step++) {
    const next = stepFrom(at, granularity, zone, step);
    if (next > at) return next;
  }
  throw new Error(`no ${granularity} follows ${at} in ${zone.name}`);
}

function stepFrom(at: number, granularity: Granularity, zone: Zone, step: number): number {
  switch (granularity) {
    case 'hour':
      // To the next full local hour, which a half-hour clock change brings nearer.
      return at + HOUR_MS * step - (zone.localAt(at) % HOUR_MS);
    case 'day':
      return zone.addDays(at, step);
    case 'week':
      return zone.addWeeks(at, step);
    case 'month':
      return zone.addMonths(at, step);
  }
}
