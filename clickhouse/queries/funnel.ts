/**
 * How far clicks or installs get: each step is reached at its first record after the step before, within a time from the
 * entrance. The entrances themselves are counted as everywhere else (topValues, figureParts).
 */
import { isInstall } from '#clickhouse/rollups.ts';
import { deviceOf } from './cohorts.ts';
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
/** From the first possible entrance to the end of the last one's time. */
const recent = `toDate(time) >= toDate(${at('{start_ms:Int64}')}) AND toDate(time) <= toDate(${at('{newest_ms:Int64}')}) AND time < ${at('{newest_ms:Int64}')}`;

export interface Funnel {
  /** The records whose way is followed, and to which the filters of the scope apply. */
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
  /** How many reached each step after the entrance. */
  readonly reached: readonly number[];
}

/** Rows: FunnelRow, without groups in which nothing followed. */
export function funnelSteps(scope: Scope, funnel: Funnel): Question {
  const { from, events, window_ms, observed_ms, top } = funnel;
  const entries = from === 'click' ? clickEntries(scope, funnel) : installEntries(scope, funnel);
  const steps = events.map((_, no) => `reached_${no}`);
  const reached = [...(from === 'click' ? ['toInt64(1)'] : []), ...steps].map((step) => `toUInt64(${step} > 0)`);
  const sql =
    events.length === 0
      ? `SELECT grp, [count()] AS reached FROM (${entries}) GROUP BY grp`
      : `SELECT grp, sumForEach([${reached.join(', ')}]) AS reached FROM (${withSteps(scope, funnel, entries)}) GROUP BY grp`;
  return {
    sql,
    params: {
      ...scopeParams(scope),
      ...(top ? { top: [...top] } : {}),
      names: [...events],
      window_ms,
      newest_ms: Math.min(observed_ms, scope.end_ms + window_ms + 1),
    },
  };
}

/** Each entrance that got to an install, with the time at which each step was reached, 0 if it was not. */
function withSteps(scope: Scope, { events }: Funnel, entries: string): string {
  const placeOf = (name: string) => events.indexOf(name);
  const times = [...new Set(events)].map(
    (name) => `groupArrayIf(at, name = {names:Array(String)}[${placeOf(name) + 1}]) AS times_${placeOf(name)}`,
  );
  const steps = events.map((name, no) => {
    const before = no === 0 ? 'installed' : `reached_${no - 1}`;
    // One event is not two steps.
    const isLater = events[no - 1] === name ? '>' : '>=';
    return `if(${before} = 0, 0, arrayMin(arrayFilter(t -> t ${isLater} ${before} AND t <= entered + {window_ms:Int64}, times_${placeOf(name)}))) AS reached_${no}`;
  });
  // An event that got its link later is stored twice at the same time, which makes no difference here.
  return `SELECT grp, ${steps.join(', ')} FROM (${entries}) AS i LEFT JOIN (
  SELECT device, ${times.join(', ')} FROM (
    SELECT ${deviceOf}, name, toUnixTimestamp64Milli(time) AS at FROM events
    WHERE ${tenantOf(scope, 'events')} AND ${recent} AND sign = 1 AND install_id != '' AND name IN {names:Array(String)})
  GROUP BY device) AS e USING (device)`;
}

function installEntries(scope: Scope, funnel: Funnel): string {
  return `SELECT ${group('installs', funnel)} AS grp, toUnixTimestamp64Milli(time) AS entered, toUnixTimestamp64Milli(time) AS installed, ${deviceOf}
FROM installs WHERE ${tenantCondition(scope, 'installs')} AND ${rawTimeCondition(scope)} AND ${isInstall} AND install_id != ''`;
}

/** Clicks that led to an install within the time, with the first one. */
function clickEntries(scope: Scope, funnel: Funnel): string {
  const bots = scope.include_bots ? '' : ' AND NOT is_bot';
  return `SELECT grp, entered, first.1 AS installed, first.2 AS device FROM (
  SELECT grp, entered, arrayFirst(one -> one.1 >= entered AND one.1 <= entered + {window_ms:Int64}, found) AS first FROM (
    SELECT click_id, ${group('clicks', funnel)} AS grp, toUnixTimestamp64Milli(time) AS entered
    FROM clicks WHERE ${tenantCondition(scope, 'clicks')} AND ${rawTimeCondition(scope)}${bots} AND click_id != ''
  ) AS c INNER JOIN (
    SELECT click_id, arraySort(groupArray((toUnixTimestamp64Milli(time), sipHash128(app_id, install_id)))) AS found FROM installs
    WHERE ${tenantOf(scope, 'installs')} AND ${recent} AND ${isInstall} AND click_id != '' GROUP BY click_id
  ) AS i USING (click_id)) WHERE installed > 0`;
}

function group(kind: 'clicks' | 'installs', { groupBy, top }: Funnel): string {
  const own = groupBy ? groupOf(kind, groupBy) : "''";
  return top ? `if(has({top:Array(String)}, ${own}), ${own}, '\\0')` : own;
}

/** The filters are about the entrances: of what follows, only the tenant and the app. */
function tenantOf(scope: Scope, kind: 'installs' | 'events'): string {
  const { app_id } = scope.filters;
  return tenantCondition({ ...scope, filters: app_id ? { app_id } : {} }, kind);
}
