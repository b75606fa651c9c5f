/** Estimates how many devices are behind an address. */
import { relateVersions, sameLanguage, sameModel, sameVersion } from './comparisons.ts';
import type { Signals } from './signals.ts';

interface ClickAtAddress {
  readonly click_id: string;
  readonly time: number;
  readonly signals: Signals;
}

export function isSamePlatform(device: Signals, click: Signals): boolean {
  return device.family === click.family || (device.family === 'ios' && device.maybeIpad && click.maybeIpad);
}

/**
 * If several devices are behind an address, its points are divided between them: the requesting device, and those that
 * clicked there. Clicks count as one device unless something contradicts that, so that two browsers of one phone are
 * not a crowd.
 */
export function crowdPart(asker: Signals, candidates: readonly ClickAtAddress[]): number {
  const others: Signals[] = [];
  const inOrder = candidates.toSorted((a, b) => a.time - b.time || (a.click_id < b.click_id ? -1 : 1));
  for (const { signals } of inOrder) {
    if (mayBeAskers(asker, signals)) continue;
    if (!others.some((device) => mayBeSame(device, signals))) others.push(signals);
  }
  return 1 / (others.length + 1);
}

/**
 * An app may exist in one language only, and a phone may be updated after its click: neither implies another device.
 */
function mayBeAskers(asker: Signals, click: Signals): boolean {
  const related = relateVersions(asker, click);
  return (
    isSamePlatform(asker, click) &&
    related !== 'other_major' &&
    related !== 'downgraded' &&
    sameModel(asker.device_model, click.device_model) !== 0
  );
}

function mayBeSame(a: Signals, b: Signals): boolean {
  return (
    (a.family === b.family || (a.maybeIpad && b.maybeIpad)) &&
    sameVersion(b, a) !== 0 &&
    sameModel(a.device_model, b.device_model) !== 0 &&
    sameLanguage(a, b) !== 0
  );
}
