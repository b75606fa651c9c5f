/**
 * The tap page: a page between a link and a store that reports signals of the device. The redirector shows it and
 * stores the signals in Redis under `signals:<click_id>`, for the app's probabilistic window; the gateway reads them
 * there together with the click.
 */

/** The platforms on which a link shows it. */
export const tapPageModes = ['off', 'ios', 'mobile'] as const;
export type TapPageMode = (typeof tapPageModes)[number];

export function tapPageModeOf(value: unknown): TapPageMode | null {
  return tapPageModes.find((mode) => mode === value) ?? null;
}

export interface TapSignals {
  /** IANA; empty if the browser does not report it. */
  readonly timezone: string;
  /** CSS pixels. */
  readonly screen: readonly [width: number, height: number];
  /** Native pixels per CSS pixel. */
  readonly pixel_ratio: number;
  /** BCP 47, the preferred one first. */
  readonly languages: readonly string[];
}

export function signalsKey(clickId: string): string {
  return `signals:${clickId}`;
}

const LANGUAGES_MAX = 8;
const SCREEN_PX_MAX = 20_000;
const PIXEL_RATIO_MAX = 16;
const timezoneShape = /^[A-Za-z0-9_+-]{1,32}(?:\/[A-Za-z0-9_+-]{1,32}){0,2}$/;
const languageShape = /^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,4}$/;

/** Parses the signals that a page sent; null for anything invalid. */
export function readTapSignals(given: Readonly<Record<string, unknown>>): TapSignals | null {
  const { timezone, screen, pixel_ratio, languages, ...unknown } = given;
  const isKnown =
    Object.keys(unknown).length === 0 &&
    typeof timezone === 'string' &&
    (timezone === '' || timezoneShape.test(timezone)) &&
    isScreen(screen) &&
    isNumberUpTo(pixel_ratio, PIXEL_RATIO_MAX) &&
    isLanguages(languages);
  return isKnown ? { timezone, screen, pixel_ratio, languages } : null;
}

function isNumberUpTo(value: unknown, max: number): value is number {
  return typeof value === 'number' && value > 0 && value <= max;
}

function isScreen(value: unknown): value is [number, number] {
  return Array.isArray(value) && value.length === 2 && value.every((side) => isNumberUpTo(side, SCREEN_PX_MAX));
}

function isLanguages(value: unknown): value is string[] {
  return (
    Array.isArray(value) &&
    value.length <= LANGUAGES_MAX &&
    value.every((one) => typeof one === 'string' && languageShape.test(one))
  );
}
