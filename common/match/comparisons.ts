/**
 * How far a click and a device agree in one factor: 1 is full agreement, 0 is none, values in between are partial
 * agreement, null is unknown.
 */
import { comparePhones } from './phone-models.ts';
import type { Signals } from './signals.ts';

const SCREEN_TOLERANCE_PX = 2;
/** The fraction of a screen's longer side that is left without the system bars, which some apps subtract. */
const SCREEN_PART_MIN = 0.85;
/** Wider screens are in native pixels, which thousands of models share apart from the bars. */
const PHONE_WIDTH_MAX = 600;

export function sameText(a: string, b: string): number | null {
  return a === '' || b === '' ? null : Number(a === b);
}

/** The relation of two versions; `updated` means that the device may have been updated after its click. */
export type VersionRelation = 'unknown' | 'same' | 'updated' | 'downgraded' | 'other_major';

type Versions = Pick<Signals, 'os_version' | 'os_version_min'>;

/** Compares only as many parts as both have: 17.5.1 and 17.5 are the same. A frozen version is only a minimum. */
export function relateVersions(device: Versions, click: Versions): VersionRelation {
  const { os_version: now, os_version_min: nowMin } = device;
  const { os_version: then, os_version_min: thenMin } = click;
  if (now.length > 0 && then.length > 0) return relation(compareVersions(now, then));
  if (now.length > 0 && thenMin.length > 0) {
    const order = compareVersions(now, thenMin);
    return order.by < 0 ? relation(order) : 'unknown';
  }
  if (nowMin.length > 0 && then.length > 0) {
    const order = compareVersions(nowMin, then);
    return order.by > 0 ? relation(order) : 'unknown';
  }
  return 'unknown';
}

interface Order {
  /** Positive if the first one is later. */
  readonly by: number;
  readonly isMajor: boolean;
}

function relation({ by, isMajor }: Order): VersionRelation {
  if (by === 0) return 'same';
  if (isMajor) return 'other_major';
  return by > 0 ? 'updated' : 'downgraded';
}

function compareVersions(a: readonly number[], b: readonly number[]): Order {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at++) {
    const by = (a[at] ?? 0) - (b[at] ?? 0);
    if (by !== 0) return { by, isMajor: at === 0 };
  }
  return { by: 0, isMajor: false };
}

export function sameVersion(device: Versions, click: Versions): number | null {
  const related = relateVersions(device, click);
  return related === 'unknown' ? null : Number(related === 'same');
}

/** Different models count against each other unless one may be another name for the other. */
export function sameModel(a: string, b: string): number | null {
  const compared = comparePhones(a, b);
  return compared === 'unknown' ? null : Number(compared === 'same');
}

type Languages = Pick<Signals, 'language' | 'more_languages'>;

/**
 * The same language in another region counts half, because the regions of a phone and its browser are set separately.
 * So does a language that one side prefers and the other only lists.
 */
export function sameLanguage(a: Languages, b: Languages): number | null {
  const [first, region] = a.language;
  const [other, otherRegion] = b.language;
  if (first === '' || other === '') return null;
  if (first === other) return region === '' || otherRegion === '' || region === otherRegion ? 1 : 0.5;
  return a.more_languages.includes(other) || b.more_languages.includes(first) ? 0.5 : 0;
}

export function sameScreen(a: Signals['screens'], b: Signals['screens']): number | null {
  if (a.length === 0 || b.length === 0) return null;
  return Number(a.some((one) => b.some((other) => isSameScreen(one, other))));
}

function isSameScreen([width, height]: readonly [number, number], [other, high]: readonly [number, number]): boolean {
  if (Math.abs(width - other) > SCREEN_TOLERANCE_PX) return false;
  const partMin = width < PHONE_WIDTH_MAX ? SCREEN_PART_MIN : 1;
  return Math.abs(height - high) <= SCREEN_TOLERANCE_PX || Math.min(height, high) >= partMin * Math.max(height, high);
}
