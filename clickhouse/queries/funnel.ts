/**
 * Queries how far clicks or installs get in a funnel: each step is reached at its first record after the previous step,
 * within a time from the entrance. Other queries count the entrances themselves (topValues, figureParts).
 */
import { isInstall } from '#clickhouse/rollups.ts';
import { deviceKeyOf } from './cohorts.ts';
import {
  type FilterColumn,
  groupOf,
  type Question,
  rawTimeCondition,
  type Scope,
  scopeParams,
  tenantCondition,
} from './scope.ts';

const at = (ms: string) => `fromUnixTimestamp64Milli(${ms}, 'UTC')`;
/** From the first possible entrance to the end of the time of the last one. */
const recent = `toDate(time) >= toDate(${at('{start_ms:Int64}')}) AND toDate(time) <= toDate(${at('{newest_ms:Int64}')}) AND time < ${at('{newest_ms:Int64}')}`;

export interface Funnel {
  /** The records that enter the funnel, to which the filters of the scope apply. */
  readonly from: 'click' | 'install';
  /** Names of events, in order. */
  readonly events: readonly string[];
  readonly window_ms: number;
  /** Instant up to which the records are complete, epoch milliseconds. */
  readonly observed_ms: number;
  readonly groupBy?: FilterColumn;
  /** Keeps these groups and combines all others as `\0`. */
  readonly top?: readonly string[];
}

export interface FunnelRow {
  readonly grp: string;
  /** How many entrances reached each step after the entrance. */
  readonly reached: readonly number[];
}

/** Rows: FunnelRow, without groups in which no step was reached. */
export function funnelSteps(scope: Scope, funnel: Funnel): Question {
  const { from, events, window_ms, observed_ms, top } = funnel;
  const entries = from === 'click' ? clickEntries(scope, funnel) : installEntries(scope, funnel);
  const reached = [...(from === 'click' ? ['count()'] : []), ...events.map((_, no) => `countIf(reached_${no} > 0)`)];
  const sql = `SELECT grp, [${reached.join(', ')}] AS reached FROM (${events.length === 0 ? entries : withSteps(scope, funnel, entries)}) GROUP BY grp`;
  return {
    sql,
    params: {
      ...scopeParams(scope),
      ...(top ? { top: [...top] } : {}),
      names: [...new Set(events)],
      window_ms,
      newest_ms: Math.min(observed_ms, scope.end_ms + window_ms + 1),
    },
    settings: joinSettings,
  };
}

/** The planner would otherwise keep the larger side in memory. */
const joinSettings = { query_plan_join_swap_table: '0' };

/**
 * Each entrance that led to an install, with the time at which each step was reached, or 0. The first step needs only
 * the earliest of its events, and the last one only the latest: lists of times, which cost most, are needed only for
 * the steps between.
 */
function withSteps(scope: Scope, { events }: Funnel, entries: string): string {
  const names = [...new Set(events)];
  const last = events.length - 1;
  const found = events.map((name, no) => {
    const isOwn = `e.name_no = ${names.indexOf(name) + 1} AND e.at >= i.installed AND e.at <= i.deadline`;
    const first = no === 0 ? `minIf(e.at, ${isOwn})` : `maxIf(e.at, ${isOwn})`;
    return `${no === 0 || no === last ? first : `groupArrayIf(e.at, ${isOwn})`} AS found_${no}`;
  });
  const steps = events.map((name, no) => {
    if (no === 0) return 'found_0 AS reached_0';
    const before = `reached_${no - 1}`;
    const same = events.lastIndexOf(name, no - 1);
    // One event cannot be two steps.
    const isLater = (t: string) => `${t} >= ${before}${same < 0 ? '' : ` AND ${t} > reached_${same}`}`;
    const after =
      no === last
        ? `if(${isLater(`found_${no}`)}, found_${no}, 0)`
        : `arrayMin(arrayFilter(t -> ${isLater('t')}, found_${no}))`;
    return `if(${before} = 0, 0, ${after}) AS reached_${no}`;
  });
  // An event that got its link later is stored twice at the same time, which makes no difference here.
  return `SELECT grp, ${steps.join(', ')} FROM (
  SELECT any(i.grp) AS grp, ${found.join(', ')} FROM (
    SELECT device_key, indexOf({names:Array(String)}, name) AS name_no, toUnixTimestamp64Milli(time) AS at FROM events
    WHERE ${tenantOf(scope, 'events')} AND ${recent} AND sign = 1 AND device_key != 0 AND name IN {names:Array(String)}
  ) AS e RIGHT JOIN (${entries}) AS i ON e.device_key = i.device_key GROUP BY i.no)`;
}

/** Entrances: `no`, `grp`, `installed` and `deadline` (epoch ms), `device_key`. */
function installEntries(scope: Scope, funnel: Funnel): string {
  return numbered(`SELECT ${group('installs', funnel)} AS grp, toUnixTimestamp64Milli(time) AS installed,
  toUnixTimestamp64Milli(time) + {window_ms:Int64} AS deadline, ${deviceKeyOf}
FROM installs WHERE ${tenantCondition(scope, 'installs')} AND ${rawTimeCondition(scope)} AND ${isInstall} AND install_id != ''`);
}

/** Numbers the rows from outside: within the query, all tags of one record would get the same number. */
function numbered(rows: string): string {
  return `SELECT rowNumberInAllBlocks() AS no, * FROM (${rows})`;
}

/** Clicks that led to an install within the time, with the first one. */
function clickEntries(scope: Scope, funnel: Funnel): string {
  const bots = scope.include_bots ? '' : ' AND NOT is_bot';
  const clicks = numbered(`SELECT click_key, ${group('clicks', funnel)} AS grp, toUnixTimestamp64Milli(time) AS entered
  FROM clicks WHERE ${tenantCondition(scope, 'clicks')} AND ${rawTimeCondition(scope)}${bots}`);
  return `SELECT c.no AS no, any(c.grp) AS grp, min(i.at) AS installed, any(c.entered) + {window_ms:Int64} AS deadline, argMin(i.device_key, i.at) AS device_key
FROM (${clicks}) AS c INNER JOIN (
  SELECT cityHash64(click_id) AS click_key, toUnixTimestamp64Milli(time) AS at, ${deviceKeyOf} FROM installs
  WHERE ${tenantOf(scope, 'installs')} AND ${recent} AND ${isInstall} AND click_id != ''
) AS i ON c.click_key = i.click_key WHERE i.at >= c.entered AND i.at <= c.entered + {window_ms:Int64} GROUP BY c.no`;
}

function group(kind: 'clicks' | 'installs', { groupBy, top }: Funnel): string {
  const own = groupBy ? groupOf(kind, groupBy) : "''";
  return top ? `if(has({top:Array(String)}, ${own}), ${own}, '\\0')` : own;
}

/** The condition on what follows an entrance: only the tenant and the app, because the filters apply to entrances. */
function tenantOf(scope: Scope, kind: 'installs' | 'events'): string {
  const { app_id } = scope.filters;
  return tenantCondition({ ...scope, filters: app_id ? { app_id } : {} }, kind);
}
