/** Queries about a single link: its clicks by breakdown, and the time of the last one. */
import {
  type FilterColumn,
  filteredColumns,
  type Question,
  rawTimeCondition,
  type Scope,
  scopeParams,
  tenantCondition,
} from './scope.ts';

export const breakdowns = ['platform', 'country', 'browser', 'os', 'referrer'] as const;
export type Breakdown = (typeof breakdowns)[number];

export interface BreakdownRow {
  readonly breakdown: Breakdown;
  readonly value: string;
  readonly clicks: number;
  /** Clicks of all values. */
  readonly total: number;
  /** The last click of all values, epoch ms. */
  readonly last_ms: number;
}

/** Filters that `clicks_by_link` supports. */
const byLinkColumns: readonly FilterColumn[] = ['app_id', 'link_id', 'campaign', 'tag'];

/** Clicks by the `limit` most frequent values of each breakdown. The rows of one link are adjacent in the raw table. */
export function breakdownOf(scope: Scope, limit: number): Question {
  const columns = breakdowns.map((name) => (name === 'referrer' ? 'referrer_host' : name));
  const chosen = (values: readonly string[]) =>
    `multiIf(${columns.map((column, at) => `grouping(${column}) = 0, ${values[at]}`).join(', ')}, '')`;
  return {
    sql: `SELECT breakdown, value, n AS clicks, sum(n) OVER (PARTITION BY breakdown) AS total,
  toUnixTimestamp64Milli(max(last) OVER (PARTITION BY breakdown)) AS last_ms FROM (
  SELECT ${chosen(breakdowns.map((name) => `'${name}'`))} AS breakdown, ${chosen(columns)} AS value,
    count() AS n, max(time) AS last FROM clicks
  WHERE ${tenantCondition(scope, 'clicks')} AND ${rawTimeCondition(scope)}${scope.include_bots ? '' : ' AND NOT is_bot'}
  GROUP BY GROUPING SETS (${columns.map((column) => `(${column})`).join(', ')}))
ORDER BY clicks DESC, value LIMIT {values_max:UInt32} BY breakdown`,
    params: { ...scopeParams(scope), values_max: limit },
  };
}

/**
 * Time of the last click by a person, regardless of the range of the scope. Rows: `last_ms`, 0 without any. @param
 * sinceMs only clicks from this time on, epoch ms; 0 for all.
 */
export function lastClick(scope: Scope, sinceMs: number): Question {
  const params = { ...scopeParams(scope), since_s: Math.max(0, Math.floor(sinceMs / 1000)) };
  const since = (column: string) => `${column} >= toDateTime({since_s:UInt32}, 'UTC')`;
  // A filter that the rollup does not support needs a scan of all records; otherwise the rollup gives the day.
  const isRaw = filteredColumns(scope).some((column) => !byLinkColumns.includes(column));
  const when = isRaw
    ? since('time')
    : `toDate(time) = (SELECT toDate(max(bucket)) FROM clicks_by_link WHERE ${tenantCondition(scope, 'clicks')} AND ${since('bucket')} AND NOT is_bot)`;
  return {
    sql: `SELECT toUnixTimestamp64Milli(max(time)) AS last_ms FROM clicks WHERE ${tenantCondition(scope, 'clicks')} AND NOT is_bot AND ${when}`,
    params,
  };
}

/** The day of the first record in the scope, regardless of its range. Rows: `first_ms`, 0 without any. */
export function firstDay(scope: Scope): Question {
  const parts = (['clicks', 'installs', 'events'] as const).map(
    (kind) =>
      `SELECT toUnixTimestamp(min(bucket)) AS s FROM ${kind}_by_link WHERE ${tenantCondition(withoutRaw(scope), kind)}`,
  );
  return {
    sql: `SELECT toInt64(min(s)) * 1000 AS first_ms FROM (${parts.join(' UNION ALL ')}) WHERE s > 0`,
    params: scopeParams(withoutRaw(scope)),
  };
}

/** The part of the scope that the rollup by link can answer. */
function withoutRaw(scope: Scope): Scope {
  const kept = byLinkColumns.flatMap((column) => (scope.filters[column] ? [[column, scope.filters[column]]] : []));
  return { ...scope, filters: Object.fromEntries(kept) };
}
