/** Texts of a click as `clickJson` writes them, for the parts of a record that are made once and used for many clicks. */
import { type ClickText, clickTextMax, cut } from '#common/log/record.ts';

const needsEscape = /["\\\u0000-\u001f\u007f-\uffff]/;

/** A text as it stands between the quotes of JSON, cut to its longest. */
export function clickText(name: ClickText, value: string): string {
  const max = clickTextMax[name];
  const text = value.length > max ? cut(value, max) : value;
  return needsEscape.test(text) ? JSON.stringify(text).slice(1, -1) : text;
}

/** `,"name":"value"`; nothing when it is empty. */
export function clickField(name: ClickText, value: string): string {
  return value === '' ? '' : `,"${name}":"${clickText(name, value)}"`;
}

/** The same text in one piece: V8 keeps what was concatenated as a tree, and would walk it each time it is written. */
export function inOnePiece(text: string): string {
  return Buffer.from(text).toString();
}
