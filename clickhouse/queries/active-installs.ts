/**
 * Queries retention and revenue by age from the table `active_installs`, with the same figures as `cohorts.ts` gives
 * from the records.
 */
import { ages, cellColumns, cohortMs } from '#clickhouse/active-installs.ts';
import { DAY_MS } from '#common/durations.ts';
import type { Cohorts } from './cohorts.ts';
import {
  type FilterColumn,
  filteredColumns,
  groupOf,
  type Question,
  type Scope,
  scopeParams,
  tenantCondition,
} from './scope.ts';

const slot = 'roundDown(begun, {slots:Array(Int64)})';
const columns: readonly FilterColumn[] = [...cellColumns, 'tag'];

/** The organizations that have cells, and up to when the cells are complete. Rows: ComparedRow. */
export function comparedOrganizations(scope: Scope): Question {
  return {
    sql: `SELECT organization_id, toUnixTimestamp64Milli(max(as_of)) AS as_of, toUnixTimestamp64Milli(max(revenue_as_of)) AS revenue_as_of
FROM active_installs_compared
WHERE organization_id IN {organization_ids:Array(String)} GROUP BY organization_id`,
    params: { organization_ids: [...scope.organization_ids] },
  };
}

export interface ComparedRow {
  readonly organization_id: string;
  readonly as_of: number;
  /** 0 if its revenue was never compared. */
  readonly revenue_as_of: number;
}

/**
 * Whether cells can answer the query, apart from the end of the range: cells have no smaller parts of time and no other
 * fields.
 */
export function haveCells(scope: Scope, { slots_ms, groupBy }: Pick<Cohorts, 'slots_ms' | 'groupBy'>): boolean {
  const fields = [...filteredColumns(scope), ...(groupBy ? [groupBy] : [])];
  const times = [scope.start_ms, ...slots_ms];
  return fields.every((field) => columns.includes(field)) && times.every((ms) => ms % cohortMs === 0);
}

/** The end of the last whole quarter of an hour: the last instant that counts is before it. */
export function observedUpTo(asOfMs: number): number {
  return Math.floor(asOfMs / cohortMs) * cohortMs;
}

/** The cells of the scope: `begun` (seconds), `age`, `grp` and the figure. */
function cellsOf(
  scope: Scope,
  { groupBy, top }: Pick<Cohorts, 'groupBy' | 'top'>,
  ofAges: string,
  figure = 'installs',
): string {
  const fields = [...filteredColumns(scope), ...(groupBy ? [groupBy] : [])];
  const group = groupBy ? groupOf('installs', groupBy) : "''";
  const kept = top ? `if(has({top:Array(String)}, ${group}), ${group}, '\\0')` : group;
  return `SELECT toInt64(toUnixTimestamp(cohort)) AS begun, age, ${kept} AS grp, ${figure} FROM active_installs
WHERE ${tenantCondition(scope, 'installs')} AND is_whole = ${fields.every((column) => column === 'app_id')} AND ${ofAges}
AND cohort >= toDateTime({start_s:UInt32}, 'UTC') AND cohort < toDateTime({end_s:UInt32}, 'UTC')`;
}

function paramsOf(scope: Scope, { slots_ms, top, days, observed_ms }: Cohorts) {
  const observed = observedUpTo(observed_ms + 1) / 1000;
  // Cohorts that begin before the limit of a day have completed that day.
  const limits = days.map((day) => observed - ((day + 1) * DAY_MS) / 1000);
  return {
    ...scopeParams(scope),
    slots: slots_ms.map((ms) => Math.max(0, ms / 1000)),
    ...(top ? { top: [...top] } : {}),
    days: [...days],
    limits,
    bounds: [0, ...limits.filter((limit) => limit > 0)].sort((a, b) => a - b),
  };
}

/** Rows: SizeRow. */
export function sizesOfCells(scope: Scope, cohorts: Cohorts): Question {
  // Cells between the same two limits are added up first, which costs less than comparing each cell with all limits.
  return {
    sql: `SELECT begins * 1000 AS slot, grp, sum(n) AS installs, sumForEach(arrayMap(limit -> if(bound < limit, n, 0), {limits:Array(Int64)})) AS eligible
FROM (SELECT ${slot} AS begins, roundDown(begun, {bounds:Array(Int64)}) AS bound, grp, sum(installs) AS n
  FROM (${cellsOf(scope, cohorts, `age = ${ages.installed}`)}) GROUP BY begins, bound, grp)
GROUP BY slot, grp HAVING installs != 0`,
    params: paramsOf(scope, cohorts),
  };
}

/** Rows: RetainedRow. */
export function retainedInCells(scope: Scope, cohorts: Cohorts): Question {
  return {
    sql: `SELECT begins * 1000 AS slot, grp, sumForEach(arrayMap(day -> if(age = day, n, 0), {days:Array(Int64)})) AS retained
FROM (SELECT ${slot} AS begins, grp, age, sum(installs) AS n FROM (${cellsOf(scope, cohorts, 'age IN {days:Array(Int64)}')})
  WHERE begun < transform(toInt64(age), {days:Array(Int64)}, {limits:Array(Int64)}, 0) GROUP BY begins, grp, age)
GROUP BY slot, grp`,
    params: paramsOf(scope, cohorts),
  };
}

/** Rows: RevenueRow. */
export function revenueInCells(scope: Scope, cohorts: Cohorts): Question {
  // First, ages that count for the same days are added up: those above one queried day and up to the next.
  const cells = cellsOf(scope, cohorts, `age BETWEEN ${ages.revenue} AND {age_max:Int64}`, 'currency, revenue');
  return {
    sql: `SELECT begins * 1000 AS slot, grp, currency, arrayMap(sum -> toString(sum), sumForEach(
  arrayMap((day, limit) -> if(first <= day AND bound < limit, amount, toDecimal128(0, 9)), {days:Array(Int64)}, {limits:Array(Int64)}))) AS revenue
FROM (SELECT ${slot} AS begins, roundDown(begun, {bounds:Array(Int64)}) AS bound, roundDown(age - ${ages.revenue}, {firsts:Array(Int64)}) AS first,
  grp, currency, sum(cells.revenue) AS amount FROM (${cells}) AS cells GROUP BY begins, bound, first, grp, currency)
GROUP BY slot, grp, currency`,
    params: {
      ...paramsOf(scope, cohorts),
      age_max: ages.revenue + Math.max(...cohorts.days),
      firsts: [0, ...cohorts.days.map((day) => day + 1)],
    },
  };
}

/** The groups with the most installs. Rows: GroupRow. */
export function largestGroupsOfCells(scope: Scope, groupBy: FilterColumn, limit: number): Question {
  return {
    sql: `SELECT grp AS value, sum(cells.installs) AS total FROM (${cellsOf(scope, { groupBy }, `age = ${ages.installed}`)}) AS cells
GROUP BY value HAVING total != 0 ORDER BY total DESC, value LIMIT {values_max:UInt32}`,
    params: { ...scopeParams(scope), values_max: limit },
  };
}
