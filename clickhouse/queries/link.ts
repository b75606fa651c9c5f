/** What only one link is asked for: its clicks by what they came with, and the last of them. */
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
  /** The last of all values, epoch ms. */
  readonly last_ms: number;
}

/** What `clicks_by_link` can be narrowed by. */
const byLinkColumns: readonly FilterColumn[] = ['app_id', 'link_id', 'campaign'];

/** Clicks by the `limit` commonest values of each breakdown. The rows of one link lie together in the raw table. */
export function breakdownOf(scope: Scope, limit: number): Question {
  const pairs = breakdowns.map((name) => `('${name}', ${name === 'referrer' ? 'referrer_host' : name})`).join(', ');
  return {
    sql: `SELECT breakdown, value, sum(n) AS clicks, sum(clicks) OVER (PARTITION BY breakdown) AS total,
  toUnixTimestamp64Milli(max(max(last)) OVER (PARTITION BY breakdown)) AS last_ms FROM (
  SELECT platform, country, browser, os, referrer_host, count() AS n, max(time) AS last FROM clicks
  WHERE ${tenantCondition(scope)} AND ${rawTimeCondition}${scope.include_bots ? '' : ' AND NOT is_bot'}
  GROUP BY platform, country, browser, os, referrer_host)
ARRAY JOIN [${pairs}] AS pair
GROUP BY pair.1 AS breakdown, pair.2 AS value
ORDER BY clicks DESC, value LIMIT {values_max:UInt32} BY breakdown`,
    params: { ...scopeParams(scope), values_max: limit },
  };
}

/**
 * The UTC day of the last click of a person, whatever the range of the scope. Rows: `day_s`, its beginning, 0 without any.
 * @param sinceMs only from here on, epoch ms; 0 for all.
 */
export function lastClickDay(scope: Scope, sinceMs: number): Question {
  // Filters that the rollup knows nothing of must look at every record.
  const isRaw = filteredColumns(scope).some((column) => !byLinkColumns.includes(column));
  const [day, table] = isRaw ? ['toStartOfDay(max(time))', 'clicks'] : ['max(bucket)', 'clicks_by_link'];
  const since = `${isRaw ? 'time' : 'bucket'} >= toDateTime({since_s:UInt32}, 'UTC')`;
  return {
    sql: `SELECT toUnixTimestamp(${day}) AS day_s FROM ${table} WHERE ${tenantCondition(scope)} AND ${since} AND NOT is_bot`,
    params: { ...scopeParams(scope), since_s: Math.max(0, Math.floor(sinceMs / 1000)) },
  };
}

/** Time of the last click of a person on a UTC day. Rows: `last_ms`, 0 without any. */
export function lastClickOf(scope: Scope, dayS: number): Question {
  return {
    sql: `SELECT toUnixTimestamp64Milli(max(time)) AS last_ms FROM clicks
WHERE ${tenantCondition(scope)} AND NOT is_bot AND toDate(time) = toDate(toDateTime({day_s:UInt32}, 'UTC'))`,
    params: { ...scopeParams(scope), day_s: dayS },
  };
}

/** The first record of the scope, to the day, whatever the range. Rows: `first_ms`, 0 without any. */
export function firstDay(scope: Scope): Question {
  const parts = (['clicks', 'installs', 'events'] as const).map(
    (kind) =>
      `SELECT toUnixTimestamp(min(bucket)) AS s FROM ${kind}_by_link WHERE ${tenantCondition(withoutRaw(scope))}`,
  );
  return {
    sql: `SELECT toInt64(min(s)) * 1000 AS first_ms FROM (${parts.join(' UNION ALL ')}) WHERE s > 0`,
    params: scopeParams(withoutRaw(scope)),
  };
}

/** The part of the scope that the rollup by link can answer. */
function withoutRaw(scope: Scope): Scope {
  const { app_id, link_id, campaign } = scope.filters;
  return {
    ...scope,
    filters: { ...(app_id ? { app_id } : {}), ...(link_id ? { link_id } : {}), ...(campaign ? { campaign } : {}) },
  };
}
