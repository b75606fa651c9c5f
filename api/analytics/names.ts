/** Parses a list of names in a query string. */
import { readFilter } from '#api/value-filter.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';

const namesMax = 20;

/** Empty for an empty text. */
export function readNames(field: string, text: string, max = namesMax): readonly string[] | Rejection {
  if (text === '') return [];
  const filter = readFilter(field, text);
  if (filter instanceof Rejection) return filter;
  const { values, isExclusion } = filter;
  if (isExclusion) return invalid(field, 'cannot exclude names: escape a leading minus with a backslash');
  if (values.length > max) return invalid(field, `accepts at most ${max} names`);
  return values.includes('') ? invalid(field, 'contains an empty name') : values;
}
