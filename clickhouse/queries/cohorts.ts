/**
 * Queries about installs by the time at which they were installed, and what they did later. Day 0 of an install is the
 * 24 hours after it. A day counts only for installs that have completed it, so that a rate of recent installs is not
 * too low.
 */
import { isInstall } from '#clickhouse/rollups.ts';
import { DAY_MS } from '#common/durations.ts';
import {
  type FilterColumn,
  type Filters,
  groupOf,
  type Question,
  rawTimeCondition,
  type Scope,
  scopeParams,
  tenantCondition,
} from './scope.ts';

export interface Cohorts {
  /** Beginnings of the cohorts, epoch milliseconds. */
  readonly slots_ms: readonly number[];
  readonly groupBy?: FilterColumn;
  /** Keeps these groups and combines all others as `\0`. */
  readonly top?: readonly string[];
  /** Ages in days, at most 32. */
  readonly days: readonly number[];
  /** Instant up to which the records are complete, epoch milliseconds. */
  readonly observed_ms: number;
}

/** Numbers by day are in the order of `days`. */
export interface CohortRow {
  readonly slot: number;
  readonly grp: string;
}
export interface SizeRow extends CohortRow {
  readonly installs: number;
  /** Installs that have completed each day. */
  readonly eligible: readonly number[];
}
export interface RetainedRow extends CohortRow {
  readonly retained: readonly number[];
}
export interface RevenueRow extends CohortRow {
  readonly currency: string;
  /** Exact decimals, cumulative. */
  readonly revenue: readonly string[];
}

/** The age of an event. A record that was sent shortly before its install belongs to day 0. */
const age = `intDiv(greatest(e.at - i.installed, 0), ${DAY_MS})`;
const hasCompleted = (day: string) => `installed + (${day} + 1) * ${DAY_MS} <= {observed_ms:Int64}`;
const days = '{days:Array(Int64)}';

/**
 * A key of an install in 64 bits, the same as in the stored column of events. Among 10 million installs, the chance
 * that any two have the same key is 1 in 370,000.
 */
export const deviceKeyOf = "if(install_id = '', 0, cityHash64(app_id, install_id)) AS device_key";

/** The installs of the scope: `slot`, `grp`, `installed` (epoch ms), `device_key`. */
function installsOf(scope: Scope, { groupBy, top }: Cohorts): string {
  const group = groupBy ? groupOf('installs', groupBy) : "''";
  const kept = top ? `if(has({top:Array(String)}, ${group}), ${group}, '\\0')` : group;
  return `SELECT ${deviceKeyOf}, toUnixTimestamp64Milli(time) AS installed,
  roundDown(toUnixTimestamp64Milli(time), {slots:Array(Int64)}) AS slot, ${kept} AS grp
FROM installs WHERE ${tenantCondition(scope, 'installs')} AND ${rawTimeCondition(scope)} AND ${isInstall}`;
}

function paramsOf(scope: Scope, { slots_ms, top, days, observed_ms }: Cohorts): Record<string, unknown> {
  return {
    ...scopeParams(scope),
    slots: slots_ms.map((ms) => Math.max(0, ms)),
    ...(top ? { top: [...top] } : {}),
    days: [...days],
    observed_ms,
    oldest_ms: scope.start_ms - DAY_MS,
    newest_ms: Math.min(observed_ms, scope.end_ms + (Math.max(0, ...days) + 1) * DAY_MS),
  };
}

/**
 * Events of the installs of the scope. They are filtered only by tenant and app, because the other filters apply to
 * installs.
 */
function eventsOf(scope: Scope, cohorts: Cohorts, columns: string, conditions: readonly string[], isEndless: boolean) {
  const { app_id } = scope.filters;
  const filters: Filters = app_id ? { app_id } : {};
  const newest = isEndless ? '{observed_ms:Int64}' : '{newest_ms:Int64}';
  const where = [
    tenantCondition({ ...scope, filters }, 'events'),
    `toDate(time) >= toDate(fromUnixTimestamp64Milli({oldest_ms:Int64}, 'UTC'))`,
    `toDate(time) <= toDate(fromUnixTimestamp64Milli(${newest}, 'UTC'))`,
    `time < fromUnixTimestamp64Milli(${newest})`,
    'device_key != 0',
    ...conditions,
  ];
  return `(SELECT device_key, toUnixTimestamp64Milli(time) AS at${columns} FROM events WHERE ${where.join(' AND ')}) AS e
INNER JOIN (${installsOf(scope, cohorts)} AND install_id != '') AS i USING (device_key)
WHERE e.at >= i.installed - ${DAY_MS}`;
}

/** The number of installs of each cohort and group, as the overview counts them. Rows: SizeRow. */
export function cohortSizes(scope: Scope, cohorts: Cohorts): Question {
  return {
    sql: `SELECT slot, grp, count() AS installs, sumForEach(arrayMap(day -> toUInt64(${hasCompleted('day')}), ${days})) AS eligible
FROM (${installsOf(scope, cohorts)}) GROUP BY slot, grp`,
    params: paramsOf(scope, cohorts),
  };
}

export interface GroupRow {
  readonly value: string;
  /** Installs. */
  readonly total: number;
}

/** The groups with the most installs. Rows: GroupRow. */
export function largestGroups(scope: Scope, groupBy: FilterColumn, limit: number): Question {
  return {
    sql: `SELECT ${groupOf('installs', groupBy)} AS value, count() AS total FROM installs
WHERE ${tenantCondition(scope, 'installs')} AND ${rawTimeCondition(scope)} AND ${isInstall}
GROUP BY value ORDER BY total DESC, value LIMIT {values_max:UInt32}`,
    params: { ...scopeParams(scope), values_max: limit },
  };
}

export interface ReturnOptions {
  /** If true, events on any later day count as well; otherwise only those on the day itself. */
  readonly isUnbounded: boolean;
  /** The events that count as a return; empty for all. */
  readonly events: readonly string[];
}

/** Installs that came back. Rows: RetainedRow, only of cohorts with any event. */
export function retained(scope: Scope, cohorts: Cohorts, { isUnbounded, events }: ReturnOptions): Question {
  const conditions = ['sign = 1', ...(events.length > 0 ? ['name IN {names:Array(String)}'] : [])];
  const source = eventsOf(scope, cohorts, '', conditions, isUnbounded);
  // A bit for each of the days.
  const activity = isUnbounded
    ? `max(${age}) AS activity`
    : `groupBitOr(bitShiftLeft(toUInt64(1), indexOf(${days}, ${age}) - 1)) AS activity`;
  // An install from a link with several tags is in the group of each.
  const isInGroups = cohorts.groupBy === 'tag';
  const group = isInGroups ? 'i.grp' : 'any(i.grp)';
  const isActive = isUnbounded ? 'activity >= day' : 'bitTest(activity, no - 1)';
  return {
    sql: `SELECT slot, grp,
  sumForEach(arrayMap((day, no) -> toUInt64(${hasCompleted('day')} AND ${isActive}), ${days}, arrayEnumerate(${days}))) AS retained
FROM (SELECT any(i.slot) AS slot, ${group} AS grp, i.installed AS installed, ${activity} FROM ${source}${isUnbounded ? '' : ` AND has(${days}, ${age})`}
GROUP BY device_key, i.installed${isInGroups ? ', i.grp' : ''}) GROUP BY slot, grp`,
    params: { ...paramsOf(scope, cohorts), names: [...events] },
  };
}

/** Revenue of each cohort up to each age. Rows: RevenueRow. */
export function revenueByAge(scope: Scope, cohorts: Cohorts): Question {
  const amount = 'ifNull(revenue_amount, toDecimal128(0, 9)) * sign AS amount';
  const source = eventsOf(
    scope,
    cohorts,
    `, revenue_currency AS currency, ${amount}`,
    ["revenue_currency != ''"],
    false,
  );
  return {
    sql: `SELECT slot, grp, currency, arrayMap(sum -> toString(sum),
  sumForEach(arrayMap(day -> if(${age} <= day AND ${hasCompleted('day')}, amount, toDecimal128(0, 9)), ${days}))) AS revenue
FROM ${source} GROUP BY slot, grp, currency`,
    params: paramsOf(scope, cohorts),
  };
}
