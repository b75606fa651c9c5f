/** Queries matches for display: those of an app, newest first, or one by its id. */
import { type Question, type Scope, scopeParams, tenantCondition } from './scope.ts';

export interface StoredMatch {
  readonly match_id: string;
  readonly app_id: string;
  readonly time_ms: number;
  readonly platform: string;
  readonly device_id: string;
  readonly install_id: string;
  readonly outcome: string;
  readonly match_type: string;
  readonly confidence: number;
  readonly competing_links: number;
  readonly click_id: string;
  readonly link_id: string;
  readonly browser: string;
  readonly ip: string;
  readonly shadow_outcome: string;
  readonly shadow_click_id: string;
  readonly shadow_link_id: string;
  readonly shadow_confidence: number;
  readonly duration_us: number;
  readonly detail: string;
}

export interface MatchFilter {
  readonly outcome?: string;
  readonly match_type?: string;
  readonly device_id?: string;
  readonly install_id?: string;
}

const columns = `match_id, app_id, toUnixTimestamp64Milli(time) AS time_ms, platform, device_id, install_id, outcome, match_type,
  confidence, competing_links, click_id, link_id, browser, ip, shadow_outcome, shadow_click_id, shadow_link_id, shadow_confidence,
  duration_us, detail`;

/** An erased person's matches are counted in figures but never shown. */
const isShown = "match_id != ''";
export const matchTimeCondition =
  'time >= fromUnixTimestamp64Milli({start_ms:Int64}) AND time < fromUnixTimestamp64Milli({end_ms:Int64})';

function conditionOf(scope: Scope, filter: MatchFilter): string {
  const conditions = [tenantCondition(scope, 'matches'), matchTimeCondition, isShown];
  if (filter.outcome !== undefined) conditions.push('outcome = {outcome:String}');
  if (filter.match_type !== undefined) conditions.push('match_type = {match_type:String}');
  if (filter.device_id !== undefined) conditions.push('device_id = {device_id:String}');
  // An install that referred to an earlier match has its id.
  if (filter.install_id !== undefined) {
    conditions.push(
      `(install_id = {install_id:String} OR match_id IN (SELECT match_id FROM installs WHERE ${tenantCondition(scope, 'installs')} AND install_id = {install_id:String}))`,
    );
  }
  return conditions.join(' AND ');
}

/** One page, newest first. */
export function matchPage(scope: Scope, filter: MatchFilter, limit: number, offset: number): Question {
  const condition = conditionOf(scope, filter);
  // Reads the detail only for the rows that are shown.
  const page = `SELECT app_id, time, match_id FROM matches WHERE ${condition} ORDER BY time DESC, match_id DESC LIMIT {limit:UInt32} OFFSET {offset:UInt64}`;
  return {
    sql: `SELECT ${columns} FROM matches WHERE ${tenantCondition(scope, 'matches')} AND ${matchTimeCondition} AND (app_id, time, match_id) IN (${page})
ORDER BY time DESC, match_id DESC`,
    params: { ...scopeParams(scope), ...filter, limit, offset },
  };
}

export function matchCount(scope: Scope, filter: MatchFilter): Question {
  return {
    sql: `SELECT count() AS n FROM matches WHERE ${conditionOf(scope, filter)}`,
    params: { ...scopeParams(scope), ...filter },
  };
}

export function matchById(scope: Scope, matchId: string): Question {
  return {
    sql: `SELECT ${columns} FROM matches WHERE ${tenantCondition(scope, 'matches')} AND ${matchTimeCondition} AND match_id = {match_id:String} LIMIT 1`,
    params: { ...scopeParams(scope), match_id: matchId },
  };
}
