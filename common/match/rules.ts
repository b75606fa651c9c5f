/**
 * The rules that match a device to a click, as a pure function. Evidence comes first: a named click is certain, and if
 * it can't be used there is no match. Otherwise clicks are scored by the signals that they share with the device;
 * signals that one side does not know are excluded from the sum and its maximum. If two different links score close to
 * each other, neither is matched.
 */
import { HOUR_MS } from '#common/durations.ts';
import type { AppSettings } from '#common/links/app-snapshot.ts';
import { relateVersions, sameLanguage, sameModel, sameScreen, sameText, sameVersion } from './comparisons.ts';
import { crowdPart, isSamePlatform } from './crowd.ts';
import { comparePhones } from './phone-models.ts';
import { isLocalAddress, isSharedAddress } from './shared-address.ts';
import type { Signals } from './signals.ts';

export const factors = ['ip', 'os_version', 'device_model', 'language', 'timezone', 'screen', 'age'] as const;
export type Factor = (typeof factors)[number];

/** Points of each factor for full agreement. */
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
/** The fraction of an address's points that counts if the address is known to be shared by many. */
const SHARED_ADDRESS_PART = 0.25;
/** How many unseen devices are assumed to be behind an address: see unseenDevices. */
const UNSEEN_DEVICES = 2;
/** Maximum clock difference between two machines of the installation. */
const CLOCK_SKEW_MS = 5_000;

export interface CandidateClick {
  readonly click_id: string;
  readonly app_id: string;
  readonly link_id: string;
  /** Epoch milliseconds. */
  readonly time: number;
  readonly is_bot: boolean;
  /** The device that claimed the click; empty if none. */
  readonly claimed_by: string;
}

export interface ScoredClick extends CandidateClick {
  readonly signals: Signals;
}

export type EvidenceType = 'click_id' | 'install_referrer' | 'clipboard';

/** A click that the device named, if it exists. */
export interface Evidence {
  readonly type: EvidenceType;
  readonly click: CandidateClick | null;
}

export interface MatchInput {
  readonly app_id: string;
  /** The claimant name of the device. */
  readonly claimant: string;
  readonly device: Signals;
  readonly evidence: readonly Evidence[];
  /** The app was opened by a short link that is archived, deleted, or belongs to another app. */
  readonly isLinkUnusable?: boolean;
  readonly candidates: readonly ScoredClick[];
  readonly settings: AppSettings;
  readonly nowMs: number;
}

/** What excludes a click from being scored; the first reason that applies. */
export const gates = [
  'app',
  'bot',
  'claimed',
  'future',
  'window',
  'platform',
  'os_version',
  'device_model',
  'little_in_common',
] as const;
export type Gate = (typeof gates)[number];

export interface FactorScore {
  readonly factor: Factor;
  /** 0 to 1. */
  readonly agreement: number;
  /** The points scored, out of `of`. */
  readonly points: number;
  readonly of: number;
}

/** A candidate and its evaluation by the rules. */
export interface JudgedClick {
  readonly click: ScoredClick;
  /** Null for a click that was scored. */
  readonly gate: Gate | null;
  /** 0 if a gate excluded it. */
  readonly confidence: number;
  /** The factors known for both the click and the device. */
  readonly factors: readonly FactorScore[];
}

/**
 * Why no click was matched: `click_…` and `link_…` if one was named and can't be used; otherwise a reason from scoring.
 */
export const noMatchReasons = [
  'off',
  'no_candidates',
  'gated',
  'low_confidence',
  'ambiguous',
  'click_unknown',
  'click_pending',
  'click_claimed',
  'click_expired',
  'link_unknown',
] as const;
export type NoMatchReason = (typeof noMatchReasons)[number];

/** `judged` are all evaluated candidates, in order; none if evidence decided. */
export type MatchDecision =
  | {
      readonly matched: true;
      readonly type: EvidenceType | 'probabilistic';
      readonly click: CandidateClick;
      readonly confidence: number;
      readonly factors: readonly (Factor | EvidenceType)[];
      readonly judged: readonly JudgedClick[];
    }
  | {
      readonly matched: false;
      readonly reason: NoMatchReason;
      readonly competing_links: number;
      readonly judged: readonly JudgedClick[];
    };

export interface Score {
  /** 0 to CONFIDENCE_MAX. */
  readonly confidence: number;
  /** Factors that agree at least partially. */
  readonly factors: readonly Factor[];
  /** All factors known for both sides. */
  readonly parts: readonly FactorScore[];
}

/** Decides which click the device is matched to. */
export function decide(input: MatchInput): MatchDecision {
  for (const { type, click } of input.evidence) {
    if (click && isNamedClickValid(click, input)) {
      return { matched: true, type, click, confidence: 1, factors: [type], judged: [] };
    }
  }
  if (input.evidence.length > 0) return unmatched(whyUnusable(input), []);
  return input.isLinkUnusable ? unmatched('link_unknown', []) : decideByScore(input);
}

/**
 * If a named click or link can't be used, no other click is matched by score, because the device said where it came
 * from.
 */
function whyUnusable({ app_id, claimant, evidence }: MatchInput): NoMatchReason {
  const own = evidence.flatMap(({ click }) => (click?.app_id === app_id ? [click] : []));
  if (own.length === 0 || evidence.some(({ click }) => click === null)) return 'click_unknown';
  const isTaken = own.some(({ claimed_by }) => claimed_by !== '' && claimed_by !== claimant);
  return isTaken ? 'click_claimed' : 'click_expired';
}

function isNamedClickValid(click: CandidateClick, { app_id, claimant, settings, nowMs }: MatchInput): boolean {
  const isOpen = click.claimed_by === '' || click.claimed_by === claimant;
  return click.app_id === app_id && isOpen && nowMs - click.time <= settings.attribution_window_hours * HOUR_MS;
}

/** Decides which click the device would be matched to without evidence. */
export function decideByScore(input: MatchInput): MatchDecision {
  const { settings, device, candidates, nowMs } = input;
  const windowMs = settings.probabilistic_window_hours * HOUR_MS;
  if (windowMs === 0) return unmatched('off', []);
  // In a private network, for example during a trial, the address is not shared by many strangers.
  const recent = candidates.filter(({ time }) => nowMs - time <= windowMs);
  const crowd = isLocalAddress(bareAddress(device.ip)) ? 1 : crowdPart(device, recent);
  const judged = candidates.map((click) => judge(click, input, windowMs, crowd));
  const ranked = bestOfEachLink(judged);
  const [first] = ranked;
  if (!first) return unmatched(judged.length === 0 ? 'no_candidates' : 'gated', judged);
  if (first.confidence < settings.min_confidence) return unmatched('low_confidence', judged);
  const close = ranked.filter(({ confidence }) => first.confidence - confidence <= AMBIGUITY_MARGIN + 1e-9);
  if (close.length > 1) return unmatched('ambiguous', judged, close.length);
  const { click, confidence } = first;
  const agreeing = first.factors.filter(({ agreement }) => agreement > 0).map(({ factor }) => factor);
  return { matched: true, type: 'probabilistic', click, confidence, factors: agreeing, judged };
}

function unmatched(reason: NoMatchReason, judged: readonly JudgedClick[], competing_links = 0): MatchDecision {
  return { matched: false, reason, competing_links, judged };
}

function judge(click: ScoredClick, input: MatchInput, windowMs: number, crowd: number): JudgedClick {
  const gate = gateOf(click, input, windowMs);
  const score = gate === null ? scoreOf(input.device, click, input.nowMs, windowMs, crowd) : null;
  if (!score) return { click, gate: gate ?? 'little_in_common', confidence: 0, factors: [] };
  return { click, gate: null, confidence: score.confidence, factors: score.parts };
}

/** A link is represented by its most likely click; among equals, by the newest. */
function bestOfEachLink(judged: readonly JudgedClick[]): JudgedClick[] {
  const best = new Map<string, JudgedClick>();
  for (const one of judged) {
    if (one.gate !== null) continue;
    const known = best.get(one.click.link_id);
    const isBetter =
      !known ||
      one.confidence > known.confidence ||
      (one.confidence === known.confidence && one.click.time > known.click.time);
    if (isBetter) best.set(one.click.link_id, one);
  }
  return [...best.values()].sort((a, b) => b.confidence - a.confidence);
}

function gateOf(click: ScoredClick, { app_id, claimant, device, nowMs }: MatchInput, windowMs: number): Gate | null {
  if (click.app_id !== app_id) return 'app';
  if (click.is_bot) return 'bot';
  if (click.claimed_by !== '' && click.claimed_by !== claimant) return 'claimed';
  const ageMs = nowMs - click.time;
  if (ageMs < -CLOCK_SKEW_MS) return 'future';
  if (ageMs > windowMs) return 'window';
  if (!isSamePlatform(device, click.signals)) return 'platform';
  if (relateVersions(device, click.signals) === 'other_major') return 'os_version';
  return comparePhones(device.device_model, click.signals.device_model) === 'other' ? 'device_model' : null;
}

type Agreements = Readonly<Record<Factor, number | null>>;

/** Null if there is too little in common to decide: neither the address nor four other signals. */
export function scoreOf(
  device: Signals,
  click: { readonly signals: Signals; readonly time: number },
  nowMs: number,
  windowMs: number,
  crowd: number,
): Score | null {
  const { signals } = click;
  const ageMs = Math.max(0, nowMs - click.time);
  const agreements: Agreements = {
    ip: sameText(device.ip, signals.ip),
    os_version: sameVersion(device, signals),
    device_model: sameModel(device.device_model, signals.device_model),
    language: sameLanguage(device, signals),
    timezone: sameText(device.timezone, signals.timezone),
    screen: sameScreen(device.screens, signals.screens),
    age: Math.max(0, 1 - ageMs / windowMs),
  };
  const isFaceless = !agreements.os_version && !agreements.device_model && !agreements.screen;
  const unseen = unseenDevices(agreements, isNetworkOfFew(device.ip), ageMs);
  // A click that fits any phone is accepted only at an address without other devices.
  const seen = isFaceless && crowd < 1 ? 1 / crowd + 1 : 1 / crowd;
  const own = 1 / (seen + unseen);
  const shared = isSharedAddress(bareAddress(device.ip)) ? Math.min(own, SHARED_ADDRESS_PART) : own;
  let reached = 0;
  let available = 0;
  const agreeing: Factor[] = [];
  const parts: FactorScore[] = [];
  for (const factor of factors) {
    const agreement = agreements[factor];
    if (agreement === null) continue;
    const gained = points[factor] * agreement * (factor === 'ip' ? shared : 1);
    available += points[factor];
    reached += gained;
    parts.push({ factor, agreement, points: gained, of: points[factor] });
    if (agreement > 0) agreeing.push(factor);
  }
  const others = agreeing.filter((factor) => factor !== 'ip' && factor !== 'age').length;
  if (agreements.ip !== 1 && others < SIGNALS_WITHOUT_IP_MIN) return null;
  const confidence = Math.min(CONFIDENCE_MAX, (reached / available) * decayOf(ageMs));
  return { confidence: Math.round(confidence * 1e4) / 1e4, factors: agreeing, parts };
}

/**
 * There may be more devices behind an address than have clicked. Over time, a click without a model may belong to one
 * of them, the sooner the less it reveals and the less agrees. An IPv4 address may belong to a carrier; behind a /64
 * there is a household.
 */
function unseenDevices(agreements: Agreements, isOfFew: boolean, ageMs: number): number {
  const { os_version, device_model, screen, language, timezone } = agreements;
  if (device_model || (os_version && screen && timezone !== 0)) return 0;
  // Values measured by the tap page are equal on the same phone.
  if (screen === 0 || timezone === 0) return UNSEEN_DEVICES;
  return ageMs > patienceMs(isOfFew, Boolean(os_version), Boolean(screen), language) ? UNSEEN_DEVICES : 0;
}

function patienceMs(isOfFew: boolean, hasVersion: boolean, hasScreen: boolean, language: number | null): number {
  const isForeign = language !== null && language < 1;
  if (isOfFew) return hasVersion ? Number.POSITIVE_INFINITY : isForeign ? HOUR_MS : 3 * HOUR_MS;
  if (hasVersion) return isForeign ? HOUR_MS / 2 : 3 * HOUR_MS;
  if (hasScreen) return isForeign ? HOUR_MS / 2 : 2 * HOUR_MS;
  return isForeign ? HOUR_MS / 6 : HOUR_MS;
}

/**
 * A /64 belongs to a household or a phone, a local address to a local network; any other IPv4 address can belong to a
 * carrier.
 */
function isNetworkOfFew(ip: string): boolean {
  return ip.endsWith('/64') || isLocalAddress(ip);
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
