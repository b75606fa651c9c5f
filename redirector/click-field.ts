/** One text of a click as `clickJson` writes it, for the parts of a record that are made once and used for many clicks. */
import { type ClickText, clickTextMax, cut, jsonText } from '#common/log/record.ts';

/** `,"name":"value"`, cut to its longest; nothing when it is empty. */
export function clickField(name: ClickText, value: string): string {
  if (value === '') return '';
  const max = clickTextMax[name];
  return `,"${name}":${jsonText(value.length > max ? cut(value, max) : value)}`;
}
