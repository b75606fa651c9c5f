/**
 * Decides which clicks are traced, and derives their trace ids. Both depend only on the click's id, which is in its
 * record anyway, so that every process adds spans to the same trace without extra data in the record (ADR 71).
 */
import { createHash } from 'node:crypto';
import { clickHead } from '#common/log/click-line.ts';
import { frameHeaderBytes, readHeader } from '#common/log/frame.ts';

const idChars = 30;
/** The last characters of an id are random, so they decide. */
const decidingChars = 4;
const decidingValues = 32 ** decidingChars;
const lineFeed = 0x0a;

const digitValues = new Uint8Array(128);
for (const [value, digit] of [...'0123456789abcdefghjkmnpqrstvwxyz'].entries())
  digitValues[digit.charCodeAt(0)] = value;

/** The trace of a click, and the span that its redirector adds: the parent of all others. */
export interface ClickTrace {
  readonly traceId: string;
  readonly spanId: string;
}

/** With the id of a click, someone could claim an install, so a collector gets only a hash of it. */
export function traceOfClick(clickId: string): ClickTrace {
  const hash = createHash('sha256').update(clickId).digest('hex');
  return { traceId: hash.slice(0, 32), spanId: hash.slice(32, 48) };
}

export class ClickSampling {
  readonly #below: number;

  /** @param fraction the fraction of all clicks, 0 to 1. */
  constructor(fraction: number) {
    this.#below = Math.round(fraction * decidingValues);
  }

  /** The id in the line of a sampled click; undefined for any other line. */
  idIn(line: string): string | undefined {
    const end = clickHead.length + idChars;
    let value = 0;
    for (let at = end - decidingChars; at < end; at++)
      value = value * 32 + (digitValues[line.charCodeAt(at) & 127] ?? 0);
    if (value >= this.#below || !line.startsWith(clickHead)) return undefined;
    return line.slice(clickHead.length, end);
  }

  /** The ids of sampled clicks in frames, `max` at most. */
  idsIn(frames: Buffer, max: number): string[] {
    const ids: string[] = [];
    for (let at = 0; at < frames.length && ids.length < max; ) {
      const read = readHeader(frames, at);
      if (read.state !== 'frame') break;
      if (read.header.kind === 'click') this.#addIds(ids, frames.subarray(at + frameHeaderBytes, at + read.bytes), max);
      at += read.bytes;
    }
    return ids;
  }

  #addIds(ids: string[], lines: Buffer, max: number): void {
    const end = clickHead.length + idChars;
    for (let at = 0; at + end <= lines.length && ids.length < max; ) {
      let value = 0;
      for (let n = at + end - decidingChars; n < at + end; n++)
        value = value * 32 + (digitValues[(lines[n] ?? 0) & 127] ?? 0);
      if (value < this.#below) {
        const id = this.idIn(lines.toString('latin1', at, at + end));
        if (id !== undefined) ids.push(id);
      }
      const newline = lines.indexOf(lineFeed, at);
      if (newline === -1) break;
      at = newline + 1;
    }
  }
}
