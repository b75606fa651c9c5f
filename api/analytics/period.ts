/** Determines the period of a query, as instants, from the caller's parameters. */
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { type Zone, zoneNamed } from './zone.ts';

export const intervals = ['24h', '7d', '30d', '90d', '12mo', 'mtd', 'all'] as const;
export type Interval = (typeof intervals)[number];

export interface Period {
  /** Epoch milliseconds, inclusive. */
  readonly start_ms: number;
  /** Epoch milliseconds, exclusive. */
  readonly end_ms: number;
  readonly zone: Zone;
}

export interface PeriodQuery {
  readonly start?: string;
  readonly end?: string;
  readonly interval?: Interval;
  readonly timezone?: string;
}

const quarterMs = HOUR_MS / 4;
const daysDefault = 30;
const earliestMs = Date.UTC(2000, 0, 1);
const latestMs = Date.UTC(2100, 0, 1);

/** @param firstMs returns the start of `interval=all`; called only for that interval. */
export async function periodOf(
  query: PeriodQuery,
  nowMs: number,
  firstMs: () => Promise<number | Rejection>,
): Promise<Period | Rejection> {
  const zone = zoneNamed(query.timezone ?? 'UTC');
  if (!zone) return invalid('timezone', 'must be the IANA name of a time zone, such as Europe/Berlin');
  if (query.start === undefined && query.end === undefined) {
    const interval = query.interval ?? '30d';
    if (interval !== 'all') return intervalOf(interval, nowMs, zone);
    const first = await firstMs();
    if (first instanceof Rejection) return first;
    const end_ms = zone.addDays(nowMs, 1);
    return { start_ms: zone.startOfDay(first > 0 ? Math.min(first, nowMs) : nowMs), end_ms, zone };
  }
  if (query.interval !== undefined) return invalid('interval', 'cannot be combined with start or end');
  const end = query.end === undefined ? nowMs : readInstant(query.end, zone, 1);
  if (end === null) return invalid('end', 'must be a date (2026-01-31) or an ISO 8601 time');
  const start = query.start === undefined ? daysBefore(end, zone) : readInstant(query.start, zone, 0);
  if (start === null) return invalid('start', 'must be a date (2026-01-31) or an ISO 8601 time');
  if (query.start === undefined && start < earliestMs) return invalid('end', 'must be between the years 2000 and 2100');
  if (start < earliestMs || start >= latestMs) return invalid('start', 'must be between the years 2000 and 2100');
  if (end <= start && query.end === undefined) return invalid('start', 'must be in the past if there is no end');
  if (end <= start) return invalid('end', 'must be later than start');
  if (end > latestMs) return invalid('end', 'must be between the years 2000 and 2100');
  return { start_ms: start, end_ms: end, zone };
}

/** The start of a range that has only an end. */
function daysBefore(endMs: number, zone: Zone): number {
  return zone.isStartOfDay(endMs) ? zone.addDays(endMs, -daysDefault) : endMs - daysDefault * DAY_MS;
}

/** Whole hours or days, up to and including the current one. */
function intervalOf(interval: Exclude<Interval, 'all'>, nowMs: number, zone: Zone): Period {
  const tomorrow = zone.addDays(nowMs, 1);
  switch (interval) {
    case '24h': {
      // Every hour that overlaps the last 24 hours, usually 25, so that every minute of them is included.
      let end_ms = zone.startOfHour(nowMs) + HOUR_MS;
      // An hour in which the clock was set back by half an hour is longer.
      while (end_ms <= nowMs) end_ms += HOUR_MS / 2;
      return { start_ms: zone.startOfHour(nowMs - DAY_MS), end_ms, zone };
    }
    case '7d':
      return { start_ms: zone.addDays(nowMs, -6), end_ms: tomorrow, zone };
    case '30d':
      return { start_ms: zone.addDays(nowMs, -29), end_ms: tomorrow, zone };
    case '90d':
      return { start_ms: zone.addDays(nowMs, -89), end_ms: tomorrow, zone };
    case '12mo':
      return { start_ms: zone.addMonths(nowMs, -11), end_ms: tomorrow, zone };
    case 'mtd':
      return { start_ms: zone.addMonths(nowMs, 0), end_ms: tomorrow, zone };
  }
}

const shape = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)(Z|[+-]\d{2}:?\d{2})?)?$/i;

/** A date without a time is the start of that local day, or of the day `days` later. Null for an invalid time. */
function readInstant(text: string, zone: Zone, days: number): number | null {
  const match = shape.exec(text);
  if (!match) return null;
  const [, date = '', clock, offset] = match;
  const midnight = Date.parse(`${date}T00:00:00Z`);
  // Date.parse interprets 31 February as 3 March.
  if (Number.isNaN(midnight) || new Date(midnight).toISOString().slice(0, 10) !== date) return null;
  if (clock === undefined) return zone.instantOf(midnight + days * DAY_MS);
  const local = Date.parse(`${date}T${clock}${(offset ?? 'Z').toUpperCase()}`);
  if (Number.isNaN(local)) return null;
  return offset === undefined ? zone.instantOf(local) : local;
}

/**
 * The previous period: the same number of local days if the period consists of whole days, otherwise the same duration.
 * A running period is compared with the previous period to date, rounded to 15 minutes.
 */
export function previousOf(period: Period, nowMs: number): Period {
  const { start_ms, end_ms, zone } = period;
  const before = wholePrevious(period);
  if (nowMs <= start_ms || nowMs >= end_ms) return before;
  const passedMs = zone.localAt(nowMs) - zone.localAt(start_ms);
  const point = zone.instantOf(zone.localAt(before.start_ms) + passedMs);
  const rounded = Math.ceil(point / quarterMs) * quarterMs;
  return { ...before, end_ms: Math.min(Math.max(rounded, before.start_ms + quarterMs), before.end_ms) };
}

function wholePrevious({ start_ms, end_ms, zone }: Period): Period {
  if (zone.isStartOfDay(start_ms) && zone.isStartOfDay(end_ms)) {
    const days = Math.round((zone.localAt(end_ms) - zone.localAt(start_ms)) / DAY_MS);
    return { start_ms: zone.addDays(start_ms, -days), end_ms: start_ms, zone };
  }
  return { start_ms: start_ms - (end_ms - start_ms), end_ms: start_ms, zone };
}
