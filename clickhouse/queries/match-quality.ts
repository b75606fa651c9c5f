/** Queries how well matching by score would have done in cases where evidence shows the truth. */
import { matchTimeCondition } from './matches.ts';
import { type Question, type Scope, scopeParams, tenantCondition } from './scope.ts';

export interface QualityRow {
  readonly platform: string;
  readonly browser: string;
  /** Tenths of the confidence; -1 for refused matches. */
  readonly band: number;
  readonly right: number;
  readonly wrong: number;
  readonly missed: number;
}

/** Matches whose click the device named, for which the rules also decided without that evidence. */
const isTruth =
  "outcome = 'matched' AND match_type IN ('click_id', 'install_referrer', 'clipboard') AND shadow_outcome NOT IN ('', 'off') AND detail != ''";

export function matchQuality(scope: Scope): Question {
  return {
    sql: `SELECT platform, browser, if(shadow_outcome = 'matched', least(9, toInt32(floor(shadow_confidence * 10 + 1e-9))), -1) AS band,
  countIf(shadow_outcome = 'matched' AND shadow_link_id = link_id) AS right,
  countIf(shadow_outcome = 'matched' AND shadow_link_id != link_id) AS wrong,
  countIf(shadow_outcome != 'matched') AS missed
FROM matches WHERE ${tenantCondition(scope, 'matches')} AND ${matchTimeCondition} AND ${isTruth}
GROUP BY platform, browser, band ORDER BY platform, browser, band LIMIT 10000`,
    params: scopeParams(scope),
  };
}

export interface TruthRow {
  readonly link_id: string;
  readonly detail: string;
}

/** The newest of these matches, so that they can be decided again. */
export function knownTruths(scope: Scope, limit: number): Question {
  return {
    sql: `SELECT link_id, detail FROM matches WHERE ${tenantCondition(scope, 'matches')} AND ${matchTimeCondition} AND ${isTruth}
ORDER BY time DESC LIMIT {limit:UInt32}`,
    params: { ...scopeParams(scope), limit },
  };
}
