/** How far a click and a device agree in one thing: 1 agrees, 0 does not, between is part of an agreement, null is unknown. */
import type { Signals } from './signals.ts';

const SCREEN_TOLERANCE_PX = 2;

export function sameText(a: string, b: string): number | null {
  return a === '' || b === '' ? null : Number(a === b);
}

/** As far as both say: 17.5.1 and 17.5 agree. */
export function sameVersion(a: readonly number[], b: readonly number[]): number | null {
  const length = Math.min(a.length, b.length);
  if (length === 0) return null;
  for (let at = 0; at < length; at++) if (a[at] !== b[at]) return 0;
  return 1;
}

/** "iPhone" alone is no model: it agrees with no iPhone in particular, but not with an iPad either. */
export function sameModel(a: string, b: string): number | null {
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
export function sameLanguage(a: Signals['language'], b: Signals['language']): number | null {
  if (a[0] === '' || b[0] === '') return null;
  if (a[0] !== b[0]) return 0;
  return a[1] === '' || b[1] === '' || a[1] === b[1] ? 1 : 0.5;
}

export function sameScreen(a: Signals['screens'], b: Signals['screens']): number | null {
  if (a.length === 0 || b.length === 0) return null;
  const close = (one: number, other: number) => Math.abs(one - other) <= SCREEN_TOLERANCE_PX;
  return Number(a.some((one) => b.some((other) => close(one[0], other[0]) && close(one[1], other[1]))));
}
