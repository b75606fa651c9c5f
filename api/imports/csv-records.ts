/**
 * Reads the records of a CSV file from chunks of bytes, with the position after each record, from which reading can
 * resume.
 */
import { pipeline, Readable } from 'node:stream';
import { CsvError, parse } from 'csv-parse';

/** A longer record is not a link, whose fields have 8,192 characters and 16 KiB, but an unclosed quotation mark. */
const RECORD_BYTES_MAX = 262_144;
const delimiters = [',', ';', '\t'] as const;
export type Delimiter = (typeof delimiters)[number] | '|';

export interface CsvRecord {
  readonly cells: readonly string[];
  /** Bytes of the file up to the end of this record. */
  readonly bytes: number;
  /** The line on which it ends, from 1. */
  readonly line: number;
}

export interface CsvPosition {
  readonly bytes: number;
  readonly line: number;
}

/** The file cannot be read as CSV. The message is for its owner. */
export class CsvFault extends Error {}

/**
 * The first line that is not empty, also if it continues in the next piece. At most as many bytes are read as a record may
 * have.
 */
export async function firstLineOf(pieces: AsyncIterable<Uint8Array>): Promise<string> {
  // Leaves out the byte order mark.
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const piece of pieces) {
    const part = piece.subarray(0, RECORD_BYTES_MAX - bytes);
    bytes += part.length;
    text = (text + decoder.decode(part, { stream: true })).replace(/^[\r\n]+/, '');
    if (bytes === RECORD_BYTES_MAX || /[\r\n]/.test(text)) break;
  }
  return text.split(/[\r\n]/, 1)[0] ?? '';
}

/** The most frequent separator of the first line, outside of quotation marks. */
export function delimiterOf(firstLine: string): Delimiter {
  const named = separatorOf(firstLine);
  if (named !== null && named !== '') return named;
  const bare = firstLine.replaceAll(/"[^"]*"/g, '');
  const counts = delimiters.map((one) => bare.split(one).length);
  return delimiters[counts.indexOf(Math.max(...counts))] ?? ',';
}

/** What a line `sep=;` names; empty if it was read as the separator, null for any other line. */
export function separatorOf(line: string): Delimiter | '' | null {
  const [, named] = /^"?sep=([,;|\t]?)"?$/i.exec(line) ?? [];
  return (named as Delimiter | '' | undefined) ?? null;
}

/**
 * @param pieces the bytes of the file from `bytesBefore(from)` on.
 * @throws CsvFault if the file is not CSV.
 */
export async function* csvRecords(
  pieces: AsyncIterable<Uint8Array>,
  from: CsvPosition,
  delimiter: Delimiter,
): AsyncGenerator<CsvRecord> {
  const skipped = { bytes: 0 };
  const parser = parse({
    delimiter,
    bom: from.bytes === 0,
    info: true,
    max_record_size: RECORD_BYTES_MAX,
    relax_column_count: true,
    relax_quotes: true,
    skip_empty_lines: true,
  });
  // Closes both streams when either fails or is no longer read; the reader below gets the error.
  pipeline(Readable.from(fromRecord(pieces, from, skipped), { objectMode: false }), parser, () => undefined);
  try {
    for await (const { record, info } of parser as AsyncIterable<{
      record: string[];
      info: { bytes: number; lines: number };
    }>)
      yield { cells: record, bytes: from.bytes + skipped.bytes + info.bytes, line: from.line + info.lines };
  } catch (error) {
    if (error instanceof CsvError) throw new CsvFault(error.message);
    throw error;
  }
}

/** Where the chunks must start: the byte before the position says whether a line ends there. */
export function bytesBefore({ bytes }: CsvPosition): number {
  return Math.max(0, bytes - 1);
}

/** After a quoted field, a record's position is before the end of its line, which was already counted. */
async function* fromRecord(
  pieces: AsyncIterable<Uint8Array>,
  from: CsvPosition,
  skipped: { bytes: number },
): AsyncGenerator<Uint8Array> {
  let before = from.bytes === 0 ? 'read' : '';
  for await (const piece of pieces) {
    let rest = piece;
    while (before !== 'read' && rest.length > 0) {
      const byte = rest[0] === 10 || rest[0] === 13 ? 'end' : 'text';
      if (before === '') before = byte === 'end' ? 'read' : 'open';
      else if (byte === 'text') break;
      else {
        skipped.bytes++;
        if (rest[0] === 10) before = 'read';
      }
      rest = rest.subarray(1);
    }
    if (rest.length > 0) {
      before = 'read';
      yield rest;
    }
  }
}
