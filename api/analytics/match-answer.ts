/** The API representation of a stored match: explanations in words, and figures that a program can use. */
import { Type } from 'typebox';
import type { StoredMatch } from '#clickhouse/queries/matches.ts';
import { isoTime } from '#common/clock.ts';
import type { KeptSignals, MatchCandidate, MatchDetail } from '#common/log/match-record.ts';
import { factors, gates, noMatchReasons } from '#common/match/rules.ts';
import {
  competitorsOf,
  type ExplainedMatch,
  explainCandidate,
  explainMatch,
  explainShadow,
} from './match-explanation.ts';

export const matchOutcomes = ['matched', ...noMatchReasons] as const;
export const matchTypesShown = ['url', 'click_id', 'install_referrer', 'clipboard', 'probabilistic', 'none'] as const;

const orNull = Type.Union([Type.String(), Type.Null()]);

export const matchFields = {
  match_id: Type.String(),
  app_id: Type.String(),
  time: Type.String(),
  platform: Type.String(),
  outcome: Type.Unsafe<string>({ type: 'string', enum: [...matchOutcomes] }),
  explanation: Type.String({ description: 'One sentence.' }),
  match_type: Type.Unsafe<string>({ type: 'string', enum: [...matchTypesShown] }),
  confidence: Type.Number(),
  competing_links: Type.Integer(),
  click_id: orNull,
  link_id: orNull,
  device_id: orNull,
  install_id: Type.Union([Type.String(), Type.Null()], {
    description: 'The install that the request reported, or that referred to this match by its id.',
  }),
  browser: Type.Union([Type.String(), Type.Null()], {
    description: 'The app in whose web view the link was opened, or `browser`; null if unknown.',
  }),
};

const signalsSchema = Type.Object(
  {
    system: Type.Optional(Type.String()),
    os_version: Type.Optional(Type.String()),
    os_version_at_least: Type.Optional(Type.String()),
    device_model: Type.Optional(Type.String()),
    languages: Type.Optional(Type.Array(Type.String())),
    timezone: Type.Optional(Type.String()),
    screens: Type.Optional(Type.Array(Type.Array(Type.Number()))),
  },
  { title: 'MatchSignals' },
);

export const candidateSchema = Type.Object(
  {
    click_id: Type.String(),
    link_id: Type.String(),
    clicked_at: Type.String(),
    age_ms: Type.Integer(),
    browser: orNull,
    explanation: Type.String(),
    gate: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      enum: [...gates, null],
      description: 'What excluded the click; null if it was scored.',
    }),
    confidence: Type.Number(),
    factors: Type.Array(
      Type.Object({
        factor: Type.Unsafe<string>({ type: 'string', enum: [...factors] }),
        agreement: Type.Number({ description: '0 to 1.' }),
        points: Type.Number(),
        of: Type.Number(),
      }),
      { description: 'The factors known for both the click and the device.' },
    ),
    signals: signalsSchema,
  },
  { title: 'MatchCandidate' },
);

export const explainedFields = {
  ...matchFields,
  ip: orNull,
  duration_ms: Type.Number(),
  settings: Type.Object({
    attribution_window_hours: Type.Number(),
    probabilistic_window_hours: Type.Number(),
    min_confidence: Type.Number(),
    privacy_mode: Type.String(),
  }),
  device: signalsSchema,
  named_clicks: Type.Array(
    Type.Object({
      type: Type.String(),
      click_id: Type.String(),
      age_ms: Type.Union([Type.Integer(), Type.Null()], { description: 'Null for an unknown click.' }),
    }),
  ),
  candidates: Type.Array(candidateSchema, { description: 'The most likely clicks, at most ten.' }),
  candidates_total: Type.Integer(),
  without_evidence: Type.Union(
    [
      Type.Object({
        outcome: Type.String(),
        explanation: Type.String(),
        confidence: Type.Number(),
        click_id: orNull,
        link_id: orNull,
      }),
      Type.Null(),
    ],
    {
      description:
        'What matching by score would have decided if the device had not named its click; null if it named none.',
    },
  ),
};

const text = (value: string) => (value === '' ? null : value);

/** An entry of a list of matches. */
export function matchInBrief(match: StoredMatch): object {
  return briefOf(match, explainedOf(match, detailOf(match)));
}

export function matchInFull(match: StoredMatch): object {
  const detail = detailOf(match);
  const explained = explainedOf(match, detail);
  return {
    ...briefOf(match, explained),
    ip: text(match.ip),
    duration_ms: match.duration_us / 1000,
    settings: detail.settings,
    device: signalsShown(detail.device),
    named_clicks: detail.evidence,
    candidates: detail.candidates.map((one) => candidateShown(one, explained, match.time_ms)),
    candidates_total: detail.candidates_total,
    without_evidence: shadowOf(match, detail),
  };
}

function briefOf(match: StoredMatch, explained: ExplainedMatch): object {
  const { match_id, app_id, platform, outcome, match_type, confidence, competing_links } = match;
  return {
    match_id,
    app_id,
    time: isoTime(match.time_ms),
    platform,
    outcome,
    explanation: explainMatch(explained),
    match_type,
    confidence,
    competing_links,
    click_id: text(match.click_id),
    link_id: text(match.link_id),
    device_id: text(match.device_id),
    install_id: text(match.install_id),
    browser: text(match.browser),
  };
}

function explainedOf(match: StoredMatch, detail: MatchDetail): ExplainedMatch {
  const { outcome, match_type, confidence, competing_links, platform } = match;
  return { outcome, match_type, confidence, competing_links, platform, detail };
}

function shadowOf(match: StoredMatch, detail: MatchDetail): object | null {
  const { shadow_outcome: outcome, shadow_confidence: confidence } = match;
  if (outcome === '') return null;
  const competing_links = outcome === 'ambiguous' ? competitorsOf(detail) : 0;
  const shadow = { ...explainedOf(match, detail), outcome, match_type: 'probabilistic', confidence, competing_links };
  return {
    outcome,
    explanation: explainShadow(shadow, match.shadow_link_id === match.link_id),
    confidence,
    click_id: text(match.shadow_click_id),
    link_id: text(match.shadow_link_id),
  };
}

function candidateShown(candidate: MatchCandidate, explained: ExplainedMatch, timeMs: number): object {
  const { click_id, link_id, age_ms, gate, confidence } = candidate;
  return {
    click_id,
    link_id,
    clicked_at: isoTime(timeMs - age_ms),
    age_ms,
    browser: text(candidate.browser),
    explanation: explainCandidate(candidate, explained),
    gate,
    confidence,
    factors: candidate.factors.map(([factor, agreement, points, of]) => ({ factor, agreement, points, of })),
    signals: signalsShown(candidate.signals),
  };
}

function signalsShown(signals: KeptSignals): object {
  const { family, os_version = [], os_version_min = [], device_model, language, more_languages = [] } = signals;
  const first = language ? [language.filter((part) => part !== '').join('-')] : [];
  return {
    ...(family ? { system: family } : {}),
    ...(os_version.length > 0 ? { os_version: os_version.join('.') } : {}),
    ...(os_version_min.length > 0 ? { os_version_at_least: os_version_min.join('.') } : {}),
    ...(device_model ? { device_model } : {}),
    ...(first.length > 0 ? { languages: [...first, ...more_languages] } : {}),
    ...(signals.timezone ? { timezone: signals.timezone } : {}),
    ...(signals.screens ? { screens: signals.screens } : {}),
  };
}

/** Parses the detail, which our own edge wrote; empty for a match of an erased person. */
export function detailOf({ detail }: Pick<StoredMatch, 'detail'>): MatchDetail {
  return { ...emptyDetail, ...(detail === '' ? {} : (JSON.parse(detail) as MatchDetail)) };
}

const emptyDetail: MatchDetail = {
  settings: {
    attribution_window_hours: 0,
    probabilistic_window_hours: 0,
    min_confidence: 0,
    privacy_mode: 'no_ip',
  },
  device: {},
  network: 'unknown',
  evidence: [],
  candidates: [],
  candidates_total: 0,
};
