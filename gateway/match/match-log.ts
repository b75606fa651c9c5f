/**
 * Records each decision: the device's description, the clicks it was compared with, and the outcome. The answer waits
 * for the journal, so that every answered match can be examined. If evidence decided, the record also has the decision
 * that would have been made without it (the shadow decision): comparing the two measures the precision for an app.
 */
import type { ClickAtAddress } from '#common/attribution/recent-clicks.ts';
import { timeOfId } from '#common/ids.ts';
import {
  detailJson,
  type KeptSignals,
  type MatchCandidate,
  type MatchRecord,
  matchCandidatesMax,
  matchJson,
  matchTextMax,
} from '#common/log/match-record.ts';
import { cut } from '#common/log/record.ts';
import { decideByScore, type JudgedClick, type MatchDecision, type MatchInput } from '#common/match/rules.ts';
import { networkKindOf } from '#common/match/shared-address.ts';
import type { Signals } from '#common/match/signals.ts';
import type { RecordWriter } from '#gateway/record-writer.ts';
import type { Asker } from './asker.ts';
import type { NamedClick } from './evidence.ts';
import type { Match } from './match-result.ts';
import type { MatchFields } from './match-schema.ts';

/** A decision that leads to a match; absent if the rules were not applied. */
export interface Decided {
  readonly input: MatchInput;
  readonly decision: MatchDecision;
  readonly given: readonly NamedClick[];
  /** The clicks at the address, as stored there. */
  readonly near: readonly ClickAtAddress[];
}

export interface Question {
  readonly fields: MatchFields;
  readonly asker: Asker;
  /** From performance.now(). */
  readonly startedMs: number;
}

/** Maximum length of a signal's text, because user agents and SDKs can send anything. */
const signalCharsMax = 64;
const languagesMax = 8;

export class MatchLog {
  readonly #records: RecordWriter;

  constructor(records: RecordWriter) {
    this.#records = records;
  }

  /** Checked first, so that no click is claimed that cannot be recorded. */
  get isOpen(): boolean {
    return this.#records.isOpen;
  }

  /** Resolves to true once the journal has it. */
  write(question: Question, match: Match, decided: Decided | null): Promise<boolean> {
    const json = matchJson(recordOf(question, match, decided));
    return this.#records.write('match', match.app_id, [{ id: match.match_id, json }]);
  }
}

function recordOf({ fields, asker, startedMs }: Question, match: Match, decided: Decided | null): MatchRecord {
  const time = timeOfId(match.match_id);
  const { app } = asker;
  const nowMs = decided?.input.nowMs ?? time;
  const isCertain = decided !== null && decided.input.evidence.length > 0;
  const shadow = isCertain ? decideByScore(decided.input) : null;
  const judged = (shadow ?? decided?.decision)?.judged ?? [];
  const kept = likeliest(judged);
  return {
    match_id: match.match_id,
    organization_id: app.organization_id,
    app_id: app.app_id,
    time,
    platform: fields.platform,
    device_id: storable(fields.device_id ?? '', matchTextMax.device_id),
    install_id: storable(asker.install_id ?? '', matchTextMax.install_id),
    outcome: match.reason ?? (match.match_type === 'none' ? 'gated' : 'matched'),
    match_type: match.match_type,
    confidence: match.confidence,
    competing_links: match.competing_links,
    click_id: match.click_id,
    link_id: match.link_id,
    browser: decided ? browserOf(match.click_id, decided) : '',
    ip: asker.ip,
    privacy_mode: app.settings.privacy_mode,
    ...shadowOf(shadow),
    duration_us: Math.min(2 ** 32 - 1, Math.max(0, Math.round((performance.now() - startedMs) * 1000))),
    detail: detailJson({
      settings: {
        attribution_window_hours: app.settings.attribution_window_hours,
        probabilistic_window_hours: app.settings.probabilistic_window_hours,
        min_confidence: app.settings.min_confidence,
        privacy_mode: app.settings.privacy_mode,
      },
      device: decided ? keptSignals(decided.input.device) : {},
      network: decided && app.settings.privacy_mode !== 'no_ip' ? networkKindOf(decided.input.device.ip) : 'unknown',
      evidence: (decided?.given ?? []).map(({ type, click_id }) => {
        const click = decided?.input.evidence.find((one) => one.click?.click_id === click_id)?.click ?? null;
        return { type, click_id, age_ms: click === null ? null : nowMs - click.time };
      }),
      candidates: kept.map((one) => candidateOf(one, nowMs, decided)),
      candidates_total: judged.length,
    }),
  };
}

function shadowOf(
  shadow: MatchDecision | null,
): Pick<MatchRecord, 'shadow_outcome' | 'shadow_click_id' | 'shadow_link_id' | 'shadow_confidence'> {
  const nothing = { shadow_click_id: '', shadow_link_id: '', shadow_confidence: 0 };
  if (shadow === null) return { shadow_outcome: '', ...nothing };
  if (!shadow.matched) return { shadow_outcome: shadow.reason, ...nothing };
  const { click, confidence } = shadow;
  return {
    shadow_outcome: 'matched',
    shadow_click_id: click.click_id,
    shadow_link_id: click.link_id,
    shadow_confidence: confidence,
  };
}

/**
 * Order: the best click of each link, since these compete; then other scored clicks; then clicks that a gate excluded,
 * newest first.
 */
function likeliest(judged: readonly JudgedClick[]): readonly JudgedClick[] {
  const sorted = judged.toSorted(
    (a, b) =>
      Number(a.gate !== null) - Number(b.gate !== null) || b.confidence - a.confidence || b.click.time - a.click.time,
  );
  if (sorted.length <= matchCandidatesMax) return sorted;
  const links = new Set<string>();
  const first: JudgedClick[] = [];
  const rest: JudgedClick[] = [];
  for (const one of sorted) {
    const isBest = one.gate === null && !links.has(one.click.link_id);
    links.add(one.click.link_id);
    (isBest ? first : rest).push(one);
  }
  return [...first, ...rest].slice(0, matchCandidatesMax);
}

function candidateOf(
  { click, gate, confidence, factors }: JudgedClick,
  nowMs: number,
  decided: Decided | null,
): MatchCandidate {
  return {
    click_id: click.click_id,
    link_id: click.link_id,
    age_ms: nowMs - click.time,
    browser: decided ? browserOf(click.click_id, decided) : '',
    signals: keptSignals(click.signals),
    gate,
    confidence,
    factors: factors.map(({ factor, agreement, points, of }) => [factor, rounded(agreement), rounded(points), of]),
  };
}

function browserOf(clickId: string, { near }: Decided): string {
  const click = near.find(({ click_id }) => click_id === clickId);
  return click === undefined ? '' : click.traces.app || 'browser';
}

function keptSignals({ ip: _, ...signals }: Signals): KeptSignals {
  const { os_version, os_version_min, device_model, language, more_languages, timezone, screens } = signals;
  return {
    family: signals.family,
    ...(signals.maybeIpad ? { maybeIpad: true } : {}),
    ...(os_version.length > 0 ? { os_version } : {}),
    ...(os_version_min.length > 0 ? { os_version_min } : {}),
    ...(device_model === '' ? {} : { device_model: storable(device_model, signalCharsMax) }),
    ...(language[0] === '' ? {} : { language }),
    ...(more_languages.length > 0 ? { more_languages: more_languages.slice(0, languagesMax) } : {}),
    ...(timezone === '' ? {} : { timezone }),
    ...(screens.length > 0
      ? { screens: screens.map(([width, height]) => [rounded(width), rounded(height)] as const) }
      : {}),
  };
}

function rounded(value: number): number {
  return Math.round(value * 1e3) / 1e3;
}

/** Replaces characters that no column can store. */
function storable(text: string, max: number): string {
  return cut(text, max).toWellFormed().replaceAll('\0', '\uFFFD');
}
