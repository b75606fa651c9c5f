/**
 * Explains a match decision in words: one sentence for the outcome of the request, and one for each click that was
 * compared.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import type { KeptSignals, MatchCandidate, MatchDetail } from '#common/log/match-record.ts';
import { AMBIGUITY_MARGIN, type Factor, type Gate } from '#common/match/rules.ts';

/** The parts of a match from which the sentences are built. */
export interface ExplainedMatch {
  readonly outcome: string;
  readonly match_type: string;
  readonly confidence: number;
  readonly competing_links: number;
  readonly platform: string;
  readonly detail: MatchDetail;
}

const factorNames: Readonly<Record<Factor, string>> = {
  ip: 'address',
  os_version: 'OS version',
  device_model: 'model',
  language: 'language',
  timezone: 'time zone',
  screen: 'screen',
  age: 'time since the click',
};

const evidenceNames: Readonly<Record<string, string>> = {
  url: 'the link that opened the app',
  click_id: 'a click id',
  install_referrer: 'the Play Store referrer',
  clipboard: 'the clipboard',
};

const familyNames: Readonly<Record<string, string>> = { ios: 'iOS', android: 'Android', web: 'the web' };

/** Describes the outcome and its reason. */
export function explainMatch(match: ExplainedMatch): string {
  return match.outcome === 'matched' ? explainGiven(match) : `Refused: ${refusalOf(match)}.`;
}

/** Describes the outcome that there would have been without evidence. */
export function explainShadow(match: ExplainedMatch, isSameLink: boolean): string {
  if (match.outcome !== 'matched') return `Without evidence, the match would have been refused: ${refusalOf(match)}.`;
  const which = isSameLink ? 'the same link' : 'another (wrong) link';
  return `Without evidence, ${which} would have been matched, with confidence ${confidence(match.confidence)}.`;
}

function explainGiven({ match_type, confidence: reached, detail }: ExplainedMatch): string {
  if (match_type !== 'probabilistic') {
    return `Matched with certainty: ${evidenceNames[match_type] ?? 'the device'} named the click.`;
  }
  const [best] = detail.candidates;
  const agreeing = best ? namesOf(best, (agreement) => agreement > 0) : [];
  const why = agreeing.length === 0 ? '' : `: ${listed(agreeing)} ${agreeing.length === 1 ? 'agrees' : 'agree'}`;
  return `Matched with confidence ${confidence(reached)}${why}.`;
}

function refusalOf(match: ExplainedMatch): string {
  const { outcome, detail } = match;
  const { settings } = detail;
  const window = hours(settings.probabilistic_window_hours);
  switch (outcome) {
    case 'off':
      return 'the device named no click, and matching without evidence is off for this app (its window is 0 h)';
    case 'no_candidates':
      return settings.privacy_mode === 'no_ip'
        ? 'the device named no click, and the app stores no addresses (privacy mode no_ip), so there is nothing to compare'
        : `no click came from the device's address within your window of ${window}`;
    case 'gated':
      return gatedOf(match);
    case 'low_confidence': {
      const [best] = detail.candidates;
      return `the best click has a confidence of ${confidence(best?.confidence ?? 0)}, but the app requires ${confidence(settings.min_confidence)}`;
    }
    case 'ambiguous':
      return ambiguityOf(match);
    case 'click_unknown':
      return `the click that ${nameOfEvidence(detail)} names is unknown: it belongs to another app, is invented, or is older than the retention`;
    case 'click_pending':
      return `the click that ${nameOfEvidence(detail)} names had not been processed yet, so the device was asked to retry`;
    case 'click_claimed':
      return `another device already has the click that ${nameOfEvidence(detail)} names`;
    case 'click_expired':
      return expiryOf(match);
    case 'link_unknown':
      return 'the link that opened the app is archived, deleted, or of another app';
    default:
      return outcome;
  }
}

function ambiguityOf({ competing_links, detail }: ExplainedMatch): string {
  const best = bestOfLinks(detail.candidates).slice(0, competing_links);
  const reached = best.length > 1 ? ` (${listed(best.map((one) => confidence(one.confidence)))})` : '';
  const none = competing_links > 2 ? 'none' : 'neither';
  return `${count(competing_links, 'link')} within ${AMBIGUITY_MARGIN.toFixed(2)} of each other${reached}, so ${none} is matched`;
}

function expiryOf({ detail }: ExplainedMatch): string {
  const window = hours(detail.settings.attribution_window_hours);
  const ages = detail.evidence.flatMap(({ age_ms }) => (age_ms === null ? [] : [age_ms]));
  const newest = ages.length > 0 ? `was ${age(Math.min(...ages))} old` : 'was too old';
  return `the click that ${nameOfEvidence(detail)} names ${newest}, your attribution window is ${window}`;
}

function gatedOf({ detail, platform }: ExplainedMatch): string {
  const { candidates, candidates_total } = detail;
  const [only] = candidates;
  if (candidates_total === 1 && only) return lowerFirst(sentenceOf(only, detail, platform)).replace(/\.$/, '');
  const gates = new Map<Gate, number>();
  for (const { gate } of candidates) if (gate !== null) gates.set(gate, (gates.get(gate) ?? 0) + 1);
  const parts = [...gates].map(([gate, n]) => `${n} ${gatesInShort[gate]}`);
  const more = candidates_total > candidates.length ? `, and ${candidates_total - candidates.length} more` : '';
  return `none of ${count(candidates_total, 'click')} from the device's address can be the device's: ${parts.join(', ')}${more}`;
}

const gatesInShort: Readonly<Record<Gate, string>> = {
  app: 'of another app',
  bot: 'by a bot',
  claimed: 'already claimed by another device',
  future: 'later than the request',
  window: 'older than your window',
  platform: 'from another platform',
  os_version: 'from another major OS version',
  device_model: 'from another model',
  little_in_common: 'with too little in common',
};

/** Describes the decision about one candidate. */
export function explainCandidate(candidate: MatchCandidate, { detail, platform }: ExplainedMatch): string {
  return sentenceOf(candidate, detail, platform);
}

function sentenceOf(candidate: MatchCandidate, { settings, device }: MatchDetail, platform: string): string {
  const { gate, signals, age_ms } = candidate;
  switch (gate) {
    case null:
      return scored(candidate);
    case 'app':
      return 'The click belongs to another app.';
    case 'bot':
      return 'The click was made by a bot.';
    case 'claimed':
      return 'Another device already has the click.';
    case 'future':
      return `The click was made ${age(-age_ms)} after the request: a clock is wrong.`;
    case 'window':
      return `The click was ${age(age_ms)} old, your window is ${hours(settings.probabilistic_window_hours)}.`;
    case 'platform':
      return `The click came from ${familyOf(signals)}, the device is ${familyNames[device.family ?? platform] ?? 'another'}.`;
    case 'os_version':
      return `The click came from ${familyOf(signals)} ${versionOf(signals)}, the device has ${versionOf(device)}: another major version.`;
    case 'device_model':
      return `The click came from a ${signals.device_model}, the device is a ${device.device_model}.`;
    case 'little_in_common':
      return 'Too little is known of both to compare them.';
    default:
      return `The click was excluded (${String(gate)}).`;
  }
}

function scored(candidate: MatchCandidate): string {
  const agreeing = namesOf(candidate, (agreement) => agreement === 1);
  const partly = namesOf(candidate, (agreement) => agreement > 0 && agreement < 1);
  const differing = namesOf(candidate, (agreement) => agreement === 0);
  const parts = [
    ...(agreeing.length > 0 ? [`${listed(agreeing)} ${agreeing.length === 1 ? 'agrees' : 'agree'}`] : []),
    ...(partly.length > 0 ? [`${listed(partly)} in part`] : []),
    ...(differing.length > 0 ? [`${listed(differing)} ${differing.length === 1 ? 'differs' : 'differ'}`] : []),
  ];
  const shared = candidate.factors.find(([factor]) => factor === 'ip');
  const crowd =
    shared && shared[1] > 0 && shared[2] < shared[3] / 2 ? ' Others use the address too, so it says little.' : '';
  return `Confidence ${confidence(candidate.confidence)} after ${age(candidate.age_ms)}: ${parts.join('; ')}.${crowd}`;
}

function namesOf({ factors }: MatchCandidate, isWanted: (agreement: number) => boolean): string[] {
  return factors.flatMap(([factor, agreement]) =>
    factor !== 'age' && isWanted(agreement) ? [factorNames[factor] ?? factor] : [],
  );
}

/** The best click of each link, highest confidence first. */
export function bestOfLinks(candidates: readonly MatchCandidate[]): MatchCandidate[] {
  const best = new Map<string, MatchCandidate>();
  for (const one of candidates) {
    if (one.gate !== null) continue;
    const known = best.get(one.link_id);
    if (!known || one.confidence > known.confidence) best.set(one.link_id, one);
  }
  return [...best.values()].sort((a, b) => b.confidence - a.confidence);
}

function nameOfEvidence({ evidence }: MatchDetail): string {
  const names = [...new Set(evidence.map(({ type }) => evidenceNames[type] ?? type))];
  return names.length === 0 ? 'the device' : listed(names).replace(/^a click id/, 'the click id');
}

function familyOf({ family }: KeptSignals): string {
  return (family && familyNames[family]) ?? 'another system';
}

function versionOf({ os_version, os_version_min }: KeptSignals): string {
  if (os_version && os_version.length > 0) return os_version.join('.');
  return os_version_min && os_version_min.length > 0 ? `${os_version_min.join('.')} or later` : 'an unknown version';
}

function confidence(value: number): string {
  return value.toFixed(2);
}

function hours(value: number): string {
  return value >= 48 && value % 24 === 0 ? `${value / 24} d` : `${value} h`;
}

/** With one decimal place for hours and days, unless it is 0. */
function age(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.max(0, Math.floor(ms / 1000))} s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`;
  if (ms < 2 * DAY_MS) return `${shortNumber(ms / HOUR_MS)} h`;
  return `${shortNumber(ms / DAY_MS)} d`;
}

function shortNumber(value: number): string {
  return String(Math.floor(value * 10) / 10);
}

function count(n: number, what: string): string {
  const words = ['no', 'one', 'two', 'three', 'four', 'five'];
  return `${words[n] ?? n} ${what}${n === 1 ? '' : 's'}`;
}

function listed(names: readonly string[]): string {
  return names.length < 2 ? (names[0] ?? '') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** How many links had scores too close to each other. */
export function competitorsOf({ candidates }: MatchDetail): number {
  const [first, ...others] = bestOfLinks(candidates);
  if (!first) return 0;
  return 1 + others.filter((one) => first.confidence - one.confidence <= AMBIGUITY_MARGIN + 1e-9).length;
}
