/** Recomputes a decision by score from its record, with the original settings or others. */
import { HOUR_MS } from '#common/durations.ts';
import type { AppSettings } from '#common/links/app-snapshot.ts';
import type { KeptSignals, MatchCandidate, MatchDetail } from '#common/log/match-record.ts';
import { AMBIGUITY_MARGIN, decideByScore, type ScoredClick } from './rules.ts';
import { exampleOf } from './shared-address.ts';
import type { Signals } from './signals.ts';

export interface OtherSettings {
  readonly window_hours?: number;
  readonly min_confidence?: number;
}

/** `unknown`: the record lacks data that the other window would need. */
export type DecisionAgain =
  | { readonly state: 'matched'; readonly link_id: string; readonly confidence: number }
  | { readonly state: 'refused' }
  | { readonly state: 'unknown' };

export function decideAgain(detail: MatchDetail, { window_hours, min_confidence }: OtherSettings): DecisionAgain {
  const { settings } = detail;
  const window = window_hours ?? settings.probabilistic_window_hours;
  const least = min_confidence ?? settings.min_confidence;
  if (window === settings.probabilistic_window_hours) return byScores(detail.candidates, least);
  // Redis has dropped clicks older than the original window, and only the most likely clicks are recorded.
  const isWider = window > settings.probabilistic_window_hours;
  if (isWider || detail.candidates_total > detail.candidates.length) return { state: 'unknown' };
  const decision = decideByScore({
    app_id: 'own',
    claimant: 'asker',
    device: signalsOf(detail.device, detail),
    evidence: [],
    candidates: detail.candidates.map((one) => clickOf(one, detail)),
    settings: { ...settings, probabilistic_window_hours: window, min_confidence: least } as AppSettings,
    nowMs: 0,
  });
  if (!decision.matched) return { state: 'refused' };
  return { state: 'matched', link_id: decision.click.link_id, confidence: decision.confidence };
}

/** The same candidates and scores with another threshold. */
function byScores(candidates: readonly MatchCandidate[], least: number): DecisionAgain {
  const best = new Map<string, number>();
  for (const { gate, link_id, confidence } of candidates) {
    if (gate === null) best.set(link_id, Math.max(confidence, best.get(link_id) ?? 0));
  }
  const [first, second] = [...best].sort((a, b) => b[1] - a[1]);
  if (!first || first[1] < least) return { state: 'refused' };
  if (second && first[1] - second[1] <= AMBIGUITY_MARGIN + 1e-9) return { state: 'refused' };
  return { state: 'matched', link_id: first[0], confidence: first[1] };
}

function clickOf({ click_id, link_id, age_ms, gate, signals }: MatchCandidate, detail: MatchDetail): ScoredClick {
  return {
    click_id,
    link_id,
    app_id: gate === 'app' ? 'other' : 'own',
    time: -Math.min(age_ms, 1e4 * HOUR_MS),
    is_bot: gate === 'bot',
    claimed_by: gate === 'claimed' ? 'other' : '',
    signals: signalsOf(signals, detail),
  };
}

/** Clicks and device had the same address, and the rules depend only on its kind. */
function signalsOf(kept: KeptSignals, { network }: MatchDetail): Signals {
  return {
    family: 'other',
    maybeIpad: false,
    os_version: [],
    os_version_min: [],
    device_model: '',
    language: ['', ''],
    more_languages: [],
    timezone: '',
    screens: [],
    ...kept,
    ip: exampleOf(network),
  };
}
