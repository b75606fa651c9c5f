/** A list as the text of one field: its values, separated by commas. As in CSV, a value with a comma is in quotes. */

export const listText = (values: readonly string[]): string =>
  values.map((value) => (isPlain(value) ? value : `"${value.replaceAll('"', '""')}"`)).join(', ');

/** The values of the text, each once. A quote that is never closed is part of its value. */
export function listOf(text: string): string[] {
  const values = [...text.matchAll(part)].map(
    ([, quoted, plain = '']) => quoted?.replaceAll('""', '"') ?? plain.trim(),
  );
  return [...new Set(values)].filter((value) => value !== '');
}

/** A value in quotes up to the next comma or the end, or everything up to the next comma. */
const part = /\s*"((?:[^"]|"")*)"\s*(?=,|$)|([^,]+)/g;

const isPlain = (value: string) => !/^"|,/.test(value) && value.trim() === value;
