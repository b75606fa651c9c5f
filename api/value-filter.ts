/** A filter in a query string: `a`, `a,b`, or `-a` for everything except `a`. */
import { invalid, type Rejection } from '#common/http/rejection.ts';

const filterValuesMax = 100;

export interface ValueFilter {
  readonly values: readonly string[];
  /** All values except these. */
  readonly isExclusion: boolean;
}

/** Placeholders for escaped special characters in a filter. They contain NUL, which a query never does. */
const signs = [',', '-', ' ', '\\'];

/** Entries between commas without the spaces around them; `\,` `\-` `\ ` `\\` remain as placeholders. */
function entriesOf(text: string): string[] {
  const plain = text.replace(/\\([,\- \\])/g, (_, sign: string) => `\0${signs.indexOf(sign)}`);
  return plain.split(',').map((entry) => entry.replace(/^ +| +$/g, ''));
}

function filterValue(entry: string): string {
  return entry.replace(/\0(\d)/g, (_, place: string) => signs[Number(place)] ?? '');
}

/** One parsed filter, or its error. */
export function readFilter(field: string, text: string): ValueFilter | Rejection {
  const entries = entriesOf(text);
  if (entries.length > filterValuesMax) return invalid(field, `accepts at most ${filterValuesMax} values`);
  const excluded = entries.filter((entry) => entry.startsWith('-'));
  if (excluded.length > 0 && excluded.length < entries.length) {
    return invalid(field, 'cannot mix values to include and values to exclude (leading minus)');
  }
  const isExclusion = excluded.length > 0;
  return { values: entries.map((entry) => filterValue(isExclusion ? entry.slice(1) : entry)), isExclusion };
}
