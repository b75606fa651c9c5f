/** Parses values as other services export them. */
import { isObject } from '#common/json-object.ts';

/** How some services name a domain in their exports: a number, or a UUID. */
export function isDomainId(text: string): boolean {
  return /^(?:\d{1,19}|[0-9a-f]{8,32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i.test(text);
}

const yes = new Set(['1', 'true', 'yes', 'y', 't', 'on', 'archived', 'disabled', 'deleted', 'banned', 'inactive']);
const no = new Set(['', '0', 'false', 'no', 'n', 'f', 'off', 'active', 'enabled', 'null', 'none', '\\n']);

/** Null if the text means neither yes nor no. */
export function isYes(text: string): boolean | null {
  const word = text.toLowerCase();
  if (yes.has(word)) return true;
  return no.has(word) ? false : null;
}

/**
 * A whole number, also as `1,000` or `12.0`; null for anything else, such as `1.000`, which could mean one or a
 * thousand.
 */
export function countOf(text: string): number | null {
  const digits = text.replaceAll(/[\s,_]/g, '').replace(/\.00?$/, '');
  const count = Number(digits);
  return /^\d+$/.test(digits) && Number.isSafeInteger(count) ? count : null;
}

/** A list: JSON, or separated by `|`, `;` or commas. */
export function wordsOf(text: string): string[] {
  if (text.startsWith('[')) {
    try {
      const list: unknown = JSON.parse(text);
      if (Array.isArray(list)) return list.map(wordOf).filter((word) => word !== '');
    } catch {
      // Not JSON: a word may start with a bracket.
    }
  }
  const separator = ['|', ';', ','].find((one) => text.includes(one)) ?? ',';
  return text
    .split(separator)
    .map((word) => word.trim())
    .filter((word) => word !== '');
}

function wordOf(item: unknown): string {
  if (isObject(item)) return typeof item['name'] === 'string' ? item['name'].trim() : '';
  return String(item).trim();
}

export const EARLIEST_MS = Date.UTC(1970, 0, 2);
const LATEST_MS = Date.UTC(10_000, 0, 1);

/** An ISO 8601 date that the calendar does not have, such as 2024-02-31, which Date.parse reads as 2024-03-02. */
export function isImpossibleDate(text: string): boolean {
  const [day] = /^[1-9]\d{3}-\d\d-\d\d/.exec(text) ?? [];
  if (day === undefined) return false;
  const ms = Date.parse(`${day}T00:00:00Z`);
  return Number.isNaN(ms) || !new Date(ms).toISOString().startsWith(day);
}

/**
 * Epoch milliseconds of ISO 8601 (UTC if it names no zone), of `2024-01-31 09:30:00`, of seconds or milliseconds since
 * 1970, and of RFC 2822; null for anything else, such as 03/04/2024 or 2024-02-31.
 */
export function timeOf(text: string): number | null {
  if (isImpossibleDate(text)) return null;
  let ms = Number.NaN;
  if (/^\d{9,10}(?:\.\d+)?$/.test(text)) ms = Math.round(Number(text) * 1000);
  else if (/^\d{12,13}$/.test(text)) ms = Number(text);
  else if (/^\d{4}-\d\d-\d\d$/.test(text)) ms = Date.parse(`${text}T00:00:00Z`);
  else if (/^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/.test(text)) ms = Date.parse(isoOf(text));
  else if (/^[A-Z][a-z]{2}, \d/.test(text)) ms = Date.parse(text);
  return ms >= EARLIEST_MS && ms < LATEST_MS ? ms : null;
}

/** Normalizes to a T, milliseconds and an offset; accepts the zones `+0000`, `+00` and ` UTC`. */
function isoOf(text: string): string {
  const [, day, time, fraction = '', zone = ''] = /^(\S{10})[T ](\d\d:\d\d(?::\d\d)?)(\.\d+)?\s*(.*)$/.exec(text) ?? [];
  const [, sign, hours, minutes = '00'] = /^([+-])(\d\d):?(\d\d)?$/.exec(zone) ?? [];
  const offset = sign ? `${sign}${hours}:${minutes}` : /^(?:|Z|UTC|GMT)$/i.test(zone) ? 'Z' : `?${zone}`;
  return `${day}T${time}${fraction.slice(0, 4)}${offset}`;
}
