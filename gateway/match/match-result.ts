/** What a device's question comes to. */
import type { NoMatchReason } from '#common/match/rules.ts';
import type { MatchType } from './match-schema.ts';

/** A match as it is kept: by match_id, and the first of a device by the device. */
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
  /** Why there is none. */
  readonly reason?: NoMatchReason;
}

/** A match as it was kept; the shape was ours when it was written. */
export function parseMatch(json: string): Match {
  return JSON.parse(json) as Match;
}
