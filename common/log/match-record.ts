/**
 * A match in the log, one JSON object per record: the request, the candidates, the decision, and the scores behind it.
 * It has enough to explain the decision to a person and to decide again under other settings, but no more of the
 * address than the app's privacy mode stores.
 */
import { keptAddress } from '#common/address-writer.ts';
import { isRecordTime } from '#common/event-time.ts';
import { isId } from '#common/ids.ts';
import { isObject } from '#common/json-object.ts';
import type { EvidenceType, Factor, Gate } from '#common/match/rules.ts';
import type { NetworkKind } from '#common/match/shared-address.ts';
import type { Signals } from '#common/match/signals.ts';
import { isStorable, type SdkPlatform, sdkPlatforms } from './event-record.ts';
import { type PrivacyMode, privacyModes } from './record.ts';
import { type RecordFault, readFields } from './record-fields.ts';

/** Matches contain what devices reported: they are deleted earlier than statistics. */
export const matchRetentionDaysMax = 90;
/** Candidates that a record stores, the likeliest first. */
export const matchCandidatesMax = 10;
/** Maximum detail of a record, in characters: the least likely candidates are left out until it fits. */
const detailCharsMax = 16_384;

/** Longest texts of a match, in characters. */
export const matchTextMax = {
  match_id: 30,
  organization_id: 30,
  app_id: 30,
  device_id: 256,
  install_id: 128,
  outcome: 32,
  match_type: 20,
  click_id: 30,
  link_id: 30,
  browser: 32,
  ip: 45,
  shadow_outcome: 32,
  shadow_click_id: 30,
  shadow_link_id: 30,
} as const;

export type MatchText = keyof typeof matchTextMax;
const textNames = Object.keys(matchTextMax) as MatchText[];

/** Signals without the address; unknown ones are left out. */
export type KeptSignals = Partial<Omit<Signals, 'ip'>>;

export interface MatchCandidate {
  readonly click_id: string;
  readonly link_id: string;
  /** Before the request; negative for a click of the future. */
  readonly age_ms: number;
  /** The app in whose web view the link was opened, or `browser`. */
  readonly browser: string;
  readonly signals: KeptSignals;
  readonly gate: Gate | null;
  readonly confidence: number;
  /** Each with its agreement (0 to 1), the points it gave, and the maximum. */
  readonly factors: readonly (readonly [factor: Factor, agreement: number, points: number, of: number])[];
}

export interface MatchDetail {
  readonly settings: {
    readonly attribution_window_hours: number;
    readonly probabilistic_window_hours: number;
    readonly min_confidence: number;
    readonly privacy_mode: PrivacyMode;
  };
  readonly device: KeptSignals;
  readonly network: NetworkKind;
  /** Clicks that the device named, and their age; null for an unknown click. */
  readonly evidence: readonly {
    readonly type: EvidenceType;
    readonly click_id: string;
    readonly age_ms: number | null;
  }[];
  readonly candidates: readonly MatchCandidate[];
  /** How many there were. */
  readonly candidates_total: number;
}

/** Unknown values are empty. */
export interface MatchRecord extends Record<MatchText, string> {
  /** Epoch milliseconds. */
  time: number;
  platform: SdkPlatform;
  privacy_mode: PrivacyMode;
  /** 0 to 1. */
  confidence: number;
  competing_links: number;
  /** The decision as it would have been without evidence; `shadow_outcome` is empty if there was none. */
  shadow_confidence: number;
  duration_us: number;
  /** JSON text of a MatchDetail. */
  detail: string;
}

/** The detail as JSON text, within its maximum. */
export function detailJson(detail: MatchDetail): string {
  for (let kept = detail.candidates.length; ; kept--) {
    const json = JSON.stringify({ ...detail, candidates: detail.candidates.slice(0, kept) });
    if (json.length <= detailCharsMax || kept === 0) return json;
  }
}

/** The line of a match, without its newline. */
export function matchJson(match: MatchRecord): string {
  const { detail, ip, ...fields } = match;
  const address = keptAddress(ip, match.privacy_mode);
  const line = JSON.stringify({ v: 1, ...fields, ip: address }, (_key, value: unknown) =>
    value === '' ? undefined : value,
  );
  // Last, so that a reader can extract it without parsing and serializing it.
  return `${line.slice(0, -1)},"detail":${detail}}`;
}

const detailStart = ',"detail":';

/** Parses the line of a match. Returns a reason for an invalid one, and never throws. */
export function decodeMatch(line: string): MatchRecord | RecordFault {
  const fields = readFields(line, matchTextMax, textNames);
  if (typeof fields === 'string') return fields;
  const { value, texts } = fields;
  const { time, confidence, shadow_confidence, competing_links, duration_us, detail } = value;
  const platform = sdkPlatforms.find((one) => one === value['platform']);
  const privacy_mode = privacyModes.find((one) => one === value['privacy_mode']);
  if (!isRecordTime(time) || platform === undefined || privacy_mode === undefined) return 'bad_field';
  if (!isPart(confidence) || !isPart(shadow_confidence)) return 'bad_field';
  if (!isCount(competing_links) || !isCount(duration_us)) return 'bad_field';
  if (!isId('mat', texts.match_id) || !isId('app', texts.app_id) || !isId('org', texts.organization_id))
    return 'bad_field';
  // Quotes are escaped in texts, so nothing before it looks like the detail.
  const at = line.indexOf(detailStart);
  if (!isObject(detail) || at === -1) return 'bad_field';
  if (!isStorable(detail)) return 'bad_text';
  return {
    ...texts,
    time,
    platform,
    privacy_mode,
    confidence,
    shadow_confidence,
    competing_links,
    duration_us,
    detail: line.slice(at + detailStart.length, -1),
  };
}

function isPart(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= 1;
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 32;
}
