/** The result of a match request. */
import type { NoMatchReason } from '#common/match/rules.ts';
import type { MatchType } from './match-schema.ts';

/** A match as stored: under its match_id, and a device's first match also under the device. */
export interface Match {
  readonly match_id: string;
  readonly app_id: string;
  readonly match_type: MatchType;
  readonly confidence: number;
  readonly matched_factors: readonly string[];
  readonly competing_links: number;
  readonly click_id: string;
  /** Epoch milliseconds; 0 without a click. */
  readonly clicked_at: number;
  readonly link_id: string;
  readonly query: string;
  /** Why there is no match. */
  readonly reason?: NoMatchReason;
}

/** Parses a stored match. This program wrote it, so its format is not checked. */
export function parseMatch(json: string): Match {
  return JSON.parse(json) as Match;
}
