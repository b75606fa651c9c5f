/**
 * The rules by which a device gets a click, as a pure function. Evidence comes first: a click that was named is certain.
 * Else clicks are scored by what they have in common with the device; what one side doesn't know is left out of the sum
 * and out of what it is divided by. If two different links come close to each other, nobody gets either.
 */
import type { AppSettings } from '#common/app-snapshot.ts';
import { isLocalAddress, isSharedAddress } from './shared-address.ts';
import type { Signals } from './signals.ts';

export const factors = ['ip', 'os_version', 'device_model', 'language', 'timezone', 'screen', 'age'] as const;
export type Factor = (typeof factors)[number];

/** Points of each factor when it agrees fully. */
const points: Readonly<Record<Factor, number>> = {
  ip: 40,
  os_version: 15,
  device_model: 10,
  language: 10,
  timezone: 10,
  screen: 10,
  age: 5,
};

export const CONFIDENCE_MAX = 0.95;
export const AMBIGUITY_MARGIN = 0.1;
const SIGNALS_WITHOUT_IP_MIN = 4;
/** What is left of the points of an address that is known to be shared by many. */
const SHARED_ADDRESS_PART = 0.25;
const SCREEN_TOLERANCE_PX = 2;
const HOUR_MS = 3_600_000;
/** How far the clocks of two of our machines may be apart. */
const CLOCK_SKEW_MS = 5_000;

export interface CandidateClick {
  readonly click_id: string;
  readonly app_id: string;
  readonly link_id: string;
  /** Epoch milliseconds. */
  readonly time: number;
  readonly is_bot: boolean;
  /** Whoever has it already: a device, or empty. */
  readonly claimed_by: string;
}

export interface ScoredClick extends CandidateClick {
  readonly signals: Signals;
}

export type EvidenceType = 'click_id' | 'install_referrer' | 'clipboard';

/** A click that was named, if there is one by that name. */
export interface Evidence {
  readonly type: EvidenceType;
  readonly click: CandidateClick | null;
}

export interface MatchInput {
  readonly app_id: string;
  /** Who asks, for claims. */
  readonly claimant: string;
  readonly device: Signals;
  readonly evidence: readonly Evidence[];
  readonly candidates: readonly ScoredClick[];
  readonly settings: AppSettings;
  readonly nowMs: number;
}

export type Decision =
  | {
      readonly matched: true;
      readonly type: EvidenceType | 'probabilistic';
      readonly click: CandidateClick;
      readonly confidence: number;
      readonly factors: readonly (Factor | EvidenceType)[];
    }
  | { readonly matched: false; readonly competing_links: number };

export interface Score {
  /** 0 to CONFIDENCE_MAX. */
  readonly confidence: number;
  readonly factors: readonly Factor[];
}

/** Which click the device gets. */
export function decide(input: MatchInput): Decision {
  for (const { type, click } of input.evidence) {
    if (click && isNamedClickValid(click, input)) {
      return { matched: true, type, click, confidence: 1, factors: [type] };
    }
  }
  return decideByScore(input);
}

function isNamedClickValid(click: CandidateClick, { app_id, claimant, settings, nowMs }: MatchInput): boolean {
  const isOpen = click.claimed_by === '' || click.claimed_by === claimant;
  return click.app_id === app_id && isOpen && nowMs - click.time <= settings.attribution_window_hours * HOUR_MS;
}

function decideByScore(input: MatchInput): Decision {
  const { settings, device, candidates, nowMs } = input;
  const windowMs = settings.probabilistic_window_hours * HOUR_MS;
  if (windowMs === 0) return { matched: false, competing_links: 0 };
  // Inside one's own network, say while trying things out, the address is not that of many strangers.
  const recent = candidates.filter(({ time }) => nowMs - time <= windowMs);
  const crowd = isLocalAddress(bareAddress(device.ip)) ? 1 : crowdPart(device, recent);
  const best = new Map<string, { click: ScoredClick; score: Score }>();
  for (const click of candidates) {
    if (!passesGates(click, input, windowMs)) continue;
    const score = scoreOf(device, click, nowMs, windowMs, crowd);
    if (!score) continue;
    const known = best.get(click.link_id);
    const isBetter =
      !known ||
      score.confidence > known.score.confidence ||
      (score.confidence === known.score.confidence && click.time > known.click.time);
    if (isBetter) best.set(click.link_id, { click, score });
  }
  const ranked = [...best.values()].sort((a, b) => b.score.confidence - a.score.confidence);
  const [first] = ranked;
  if (!first || first.score.confidence < settings.min_confidence) return { matched: false, competing_links: 0 };
  const close = ranked.filter(({ score }) => first.score.confidence - score.confidence <= AMBIGUITY_MARGIN + 1e-9);
  if (close.length > 1) return { matched: false, competing_links: close.length };
  const { click, score } = first;
  return { matched: true, type: 'probabilistic', click, confidence: score.confidence, factors: score.factors };
}

function passesGates(click: ScoredClick, { app_id, claimant, device, nowMs }: MatchInput, windowMs: number): boolean {
  if (click.app_id !== app_id || click.is_bot) return false;
  if (click.claimed_by !== '' && click.claimed_by !== claimant) return false;
  const ageMs = nowMs - click.time;
  if (ageMs < -CLOCK_SKEW_MS || ageMs > windowMs) return false;
  if (!isSamePlatform(device, click.signals)) return false;
  const [a] = device.os_version;
  const [b] = click.signals.os_version;
  return a === undefined || b === undefined || a === b;
}

function isSamePlatform(device: Signals, click: Signals): boolean {
  return device.family === click.family || (device.family === 'ios' && device.maybeIpad && click.maybeIpad);
}

/**
 * Of several devices behind one address each has its part of what the address says: who asks, and whoever clicked there. Clicks
 * count as one device's as long as nothing speaks against it, so that two browsers of one phone are no crowd.
 */
export function crowdPart(asker: Signals, candidates: readonly ScoredClick[]): number {
  const devices: Signals[] = [asker];
  const inOrder = candidates.toSorted((a, b) => a.time - b.time || (a.click_id < b.click_id ? -1 : 1));
  for (const { signals } of inOrder) {
    if (!devices.some((device) => mayBeSame(device, signals))) devices.push(signals);
  }
  return 1 / devices.length;
}

function mayBeSame(a: Signals, b: Signals): boolean {
  return (
    (a.family === b.family || (a.maybeIpad && b.maybeIpad)) &&
    sameVersion(a.os_version, b.os_version) !== 0 &&
    sameModel(a.device_model, b.device_model) !== 0 &&
    sameLanguage(a.language, b.language) !== 0
  );
}

/** Null when there is too little in common to say anything: neither the address nor four other signals. */
export function scoreOf(
  device: Signals,
  click: { readonly signals: Signals; readonly time: number },
  nowMs: number,
  windowMs: number,
  crowd: number,
): Score | null {
  const { signals } = click;
  const ageMs = Math.max(0, nowMs - click.time);
  const agreements: Readonly<Record<Factor, number | null>> = {
    ip: sameText(device.ip, signals.ip),
    os_version: sameVersion(device.os_version, signals.os_version),
    device_model: sameModel(device.device_model, signals.device_model),
    language: sameLanguage(device.language, signals.language),
    timezone: sameText(device.timezone, signals.timezone),
    screen: sameScreen(device.screens, signals.screens),
    age: Math.max(0, 1 - ageMs / windowMs),
  };
  const isFaceless = !agreements.os_version && !agreements.device_model && !agreements.screen;
  // Such a click could be any phone's: unless it is fresh and nobody else was seen there, one more device is assumed.
  const own = isFaceless && (crowd < 1 || ageMs > HOUR_MS) ? 1 / (1 / crowd + 1) : crowd;
  const shared = isSharedAddress(bareAddress(device.ip)) ? Math.min(own, SHARED_ADDRESS_PART) : own;
  let reached = 0;
  let available = 0;
  const agreeing: Factor[] = [];
  for (const factor of factors) {
    const agreement = agreements[factor];
    if (agreement === null) continue;
    available += points[factor];
    reached += points[factor] * agreement * (factor === 'ip' ? shared : 1);
    if (agreement > 0) agreeing.push(factor);
  }
  const others = agreeing.filter((factor) => factor !== 'ip' && factor !== 'age').length;
  if (agreements.ip !== 1 && others < SIGNALS_WITHOUT_IP_MIN) return null;
  const confidence = Math.min(CONFIDENCE_MAX, (reached / available) * decayOf(ageMs));
  return { confidence: Math.round(confidence * 1e4) / 1e4, factors: agreeing };
}

/** The address, or the first one of a /64. */
function bareAddress(ip: string): string {
  return ip.replace('::/64', '::');
}

export function decayOf(ageMs: number): number {
  if (ageMs <= HOUR_MS) return 1;
  if (ageMs <= 2 * HOUR_MS) return 0.9;
  return ageMs <= 6 * HOUR_MS ? 0.75 : 0.6;
}

/** Each comparison: 1 agrees, 0 does not, between for half an agreement, null when one side doesn't know. */
function sameText(a: string, b: string): number | null {
  return a === '' || b === '' ? null : Number(a === b);
}

/** As far as both say: 17.5.1 and 17.5 agree. */
function sameVersion(a: readonly number[], b: readonly number[]): number | null {
  const length = Math.min(a.length, b.length);
  if (length === 0) return null;
  for (let at = 0; at < length; at++) if (a[at] !== b[at]) return 0;
  return 1;
}

/** "iPhone" alone is no model: it agrees with no iPhone in particular, but not with an iPad either. */
function sameModel(a: string, b: string): number | null {
  if (a === '' || b === '') return null;
  const [first, second] = [appleKind(a), appleKind(b)];
  if (first !== second) return 0;
  if (first !== '' && (a === first || b === second)) return null;
  return Number(a === b || a.endsWith(` ${b}`) || b.endsWith(` ${a}`));
}

function appleKind(model: string): string {
  return /^(iphone|ipad|ipod)/.exec(model)?.[1] ?? '';
}

/** The same language in another region is half an agreement: a phone's region and its browser's are set apart. */
function sameLanguage(a: Signals['language'], b: Signals['language']): number | null {
  if (a[0] === '' || b[0] === '') return null;
  if (a[0] !== b[0]) return 0;
  return a[1] === '' || b[1] === '' || a[1] === b[1] ? 1 : 0.5;
}

function sameScreen(a: Signals['screens'], b: Signals['screens']): number | null {
  if (a.length === 0 || b.length === 0) return null;
  const close = (one: number, other: number) => Math.abs(one - other) <= SCREEN_TOLERANCE_PX;
  return Number(a.some((one) => b.some((other) => close(one[0], other[0]) && close(one[1], other[1]))));
}
