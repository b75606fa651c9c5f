/** What the lines of installs and matches have in common: an object with texts, of which absent ones are empty. */
import { isObject } from '#common/json-object.ts';
import { fits } from './record.ts';

export type RecordFault = 'not_json' | 'not_an_object' | 'bad_field' | 'bad_text';

export interface RecordFields<Name extends string> {
  /** All of its fields, as they were sent. */
  readonly value: Readonly<Record<string, unknown>>;
  readonly texts: Record<Name, string>;
}

/**
 * Reads a line. Returns a reason for an invalid one, and never throws.
 * @param max longest texts, in characters.
 */
export function readFields<Name extends string>(
  line: string,
  max: Readonly<Record<Name, number>>,
  names: readonly Name[],
): RecordFields<Name> | RecordFault {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return 'not_json';
  }
  if (!isObject(value)) return 'not_an_object';
  const texts: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const text = value[name] ?? '';
    if (typeof text !== 'string' || !fits(text, max[name])) return 'bad_field';
    if (text.includes('\0') || !text.isWellFormed()) return 'bad_text';
    texts[name] = text;
  }
  return { value, texts: texts as Record<Name, string> };
}
