/** Numbers, dates and names in the language of the page. */
import { language } from './texts/text.ts';

/** Includes the browser's preferred region, which determines the format of dates. */
const locale = navigator.languages.find((one) => one.startsWith(language)) ?? language;

const number = new Intl.NumberFormat(language);
const compact = new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 1 });
const percent = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 1 });
const signedPercent = new Intl.NumberFormat(locale, {
  style: 'percent',
  maximumFractionDigits: 0,
  signDisplay: 'exceptZero',
});
const regions = new Intl.DisplayNames([locale], { type: 'region' });

export const whole = (value: number) => number.format(value);
/** Short enough for a tile: 12,345 in full, larger numbers as 1.2M. */
export const short = (value: number) => (Math.abs(value) < 100_000 ? number.format(value) : compact.format(value));
export const axis = (value: number) => compact.format(value);
export const share = (value: number) => percent.format(value);
export const changeText = (ratio: number) =>
  Math.abs(ratio) >= 10
    ? `${ratio < 0 ? '−' : '+'}${number.format(Math.round(Math.abs(ratio)))}×`
    : signedPercent.format(ratio);

export function money(amount: string | number, currency: string, isShort = false): string {
  const value = Number(amount);
  const isLarge = isShort && Math.abs(value) >= 10_000;
  try {
    return new Intl.NumberFormat(locale, {
      style: 'currency',
      currency,
      ...(isLarge ? { notation: 'compact', maximumFractionDigits: 1 } : {}),
    }).format(value);
  } catch {
    return `${number.format(value)} ${currency}`;
  }
}

export function country(code: string): string {
  try {
    return regions.of(code) ?? code;
  } catch {
    return code;
  }
}

/**
 * The API identifies regions by their ISO 3166-2 code, which starts with the country; without a code, by their name.
 */
export function region(code: string): string {
  const [, of] = /^([A-Z]{2})-/.exec(code) ?? [];
  return of === undefined ? code : `${code} (${country(of)})`;
}

const languages = new Intl.DisplayNames([locale], { type: 'language' });

/** The name of a language code such as `de` or `pt-br`. */
export function languageName(code: string): string {
  try {
    return languages.of(code) ?? code;
  } catch {
    return code;
  }
}

export function date(
  iso: string,
  timeZone: string,
  style: Intl.DateTimeFormatOptions = { dateStyle: 'medium' },
): string {
  return new Intl.DateTimeFormat(locale, { ...style, timeZone }).format(new Date(iso));
}

export function time(iso: string, timeZone: string): string {
  return date(iso, timeZone, { dateStyle: 'medium', timeStyle: 'short' });
}

const relative = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' });
const steps = [
  ['year', 365 * 86_400],
  ['month', 30 * 86_400],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const;

export function ago(iso: string, nowMs = Date.now()): string {
  const seconds = (Date.parse(iso) - nowMs) / 1000;
  for (const [unit, size] of steps)
    if (Math.abs(seconds) >= size) return relative.format(Math.round(seconds / size), unit);
  return relative.format(0, 'second');
}

/** A short URL without its scheme. */
export const bare = (url: string) => url.replace(/^https?:\/\//, '');
