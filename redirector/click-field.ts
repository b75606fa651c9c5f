/** Texts of a click as `clickJson` writes them, for the parts of a record that are made once and used for many clicks. */
import { type ClickText, clickTextMax, cut, jsonCharacters } from '#common/log/record.ts';

/** A text as it stands between the quotes of JSON, cut to its longest. */
export function clickText(name: ClickText, value: string): string {
  const max = clickTextMax[name];
  return jsonCharacters(value.length > max ? cut(value, max) : value);
}

/** `,"name":"value"`; nothing when it is empty. */
export function clickField(name: ClickText, value: string): string {
  return value === '' ? '' : `,"${name}":"${clickText(name, value)}"`;
}

/** The same text in one piece: V8 keeps what was concatenated as a tree, and would walk it each time it is written. */
export function inOnePiece(text: string): string {
  return Buffer.from(text).toString();
}
