/** A line of the log as text of one character per byte, and what can be read from it without parsing JSON. */
import type { ByteText } from '#clickhouse/row-binary.ts';
import type { Click } from '#common/log/record.ts';
import { decodeClick, isRejection } from './record-decoder.ts';

/** A line, parsed as JSON only when a piece of it is new. */
export class ClickScanner {
  readonly text: string;
  readonly from: number;
  readonly end: number;
  #click: Click | undefined;

  constructor(text: string, from: number, end: number) {
    this.text = text;
    this.from = from;
    this.end = end;
  }

  get isParsed(): boolean {
    return this.#click !== undefined;
  }

  /** `undefined` for an invalid click, or a bot's click for another reason than its agent. */
  get click(): Click | undefined {
    if (this.#click === undefined) {
      const read = decodeClick(utf8(this.text.slice(this.from, this.end)));
      if (!isRejection(read) && !read.is_prefetch && !read.is_preview) this.#click = read;
    }
    return this.#click;
  }

  /** The value of the field at that place; empty if it is absent. */
  value(from: number, to: number, name: string): string {
    return from === to ? '' : utf8(this.text.slice(from + name.length, to - 1));
  }
}

/** The end of the field of that name, if it begins at `at`; otherwise `at`. Beyond the text if it never ends. */
export function behind(text: string, at: number, name: string): number {
  if (!text.startsWith(name, at)) return at;
  const end = text.indexOf('"', at + name.length);
  return end === -1 ? text.length : end + 1;
}

export function utf8(bytes: ByteText): string {
  return Buffer.from(bytes, 'latin1').toString();
}
