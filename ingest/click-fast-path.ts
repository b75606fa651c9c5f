/**
 * Turns the plain lines of clicks (`plain-clicks.ts`) into rows without parsing JSON. A line that is not plain is
 * parsed as JSON. If a line is not a valid click, the caller handles its whole frame, so this file never decides what
 * is rejected.
 */
import type { ByteText } from '#clickhouse/row-binary.ts';
import { type ClickRows, type FrameOrigin, idxBytes, originBytes } from './click-rows.ts';
import type { Enrichment, StepName } from './enrichment.ts';
import { linesText, PlainClicks, utf8 } from './plain-clicks.ts';
import { decodeClick, isRejection } from './record-decoder.ts';
import { dayOf, type Visitors } from './visitors.ts';

export interface ClickFastPathOptions {
  readonly clickRows: ClickRows;
  /** Provides the columns through its steps; only `number_visitor` is done here, from texts that are already hashed. */
  readonly enrichment: Enrichment;
  readonly visitors: Visitors;
  /** Whether the salt of a UTC day is loaded. */
  readonly isDayKnown: (day: number) => boolean;
}

/** Concatenated rows of a frame, or the UTC day that must be prepared first. */
export type PlainRows =
  | { readonly rows: ByteText; readonly timeFrom: number; readonly timeTo: number }
  | { readonly unknownDay: number };

/** The steps that provide columns of a row, in the order in which `#row` concatenates them. */
const pieceSteps: readonly StepName[] = [
  'copy_link_fields',
  'detect_device',
  'read_headers',
  'anonymize_address',
  'number_visitor',
];
const nothing: ByteText = '';

export class ClickFastPath {
  readonly #options: ClickFastPathOptions;
  readonly #plain: PlainClicks;

  constructor(options: ClickFastPathOptions) {
    const inRow = options.enrichment.steps.map((step) => step.name).join();
    if (inRow !== pieceSteps.join()) throw new Error(`The click fast path writes ${pieceSteps}, not ${inRow}.`);
    this.#options = options;
    this.#plain = new PlainClicks(options.enrichment);
  }

  /**
   * The rows of a frame's clicks; `undefined` if one of them is not a valid click, or the count differs from the
   * announced one.
   */
  rowsOf(payload: Buffer, records: number, origin: FrameOrigin): PlainRows | undefined {
    const text = linesText(payload);
    if (text === undefined) return undefined;
    const from = originBytes(origin);
    const { isDayKnown, enrichment } = this.#options;
    const plain = this.#plain;
    let escapeAt = text.indexOf('\\');
    let [rows, timeFrom, timeTo] = [nothing, Number.POSITIVE_INFINITY, 0];
    let idx = 0;
    for (let at = 0; at < text.length; idx++) {
      const end = text.indexOf('\n', at);
      plain.isParsed = false;
      const isPlain = (escapeAt === -1 || escapeAt > end) && plain.read(text, at, end);
      if (escapeAt !== -1 && escapeAt < end) escapeAt = text.indexOf('\\', end);
      if (plain.isParsed) enrichment.clickLines.parsed++;
      let { timeMs } = plain;
      if (isPlain) {
        if (!isDayKnown(dayOf(timeMs))) return { unknownDay: dayOf(timeMs) };
        rows += this.#row(idx) + from;
      } else {
        const click = decodeClick(utf8(text.slice(at, end)));
        if (isRejection(click)) return undefined;
        timeMs = click.time;
        if (!isDayKnown(dayOf(timeMs))) return { unknownDay: dayOf(timeMs) };
        if (!plain.isParsed) enrichment.clickLines.parsed++;
        rows += this.#options.clickRows.encode([click], [idx], origin)[0] ?? nothing;
      }
      enrichment.clickLines.read++;
      timeFrom = Math.min(timeFrom, timeMs);
      timeTo = Math.max(timeTo, timeMs);
      at = end + 1;
    }
    return idx === records ? { rows, timeFrom, timeTo } : undefined;
  }

  /** The row of the most recently read line. */
  #row(idx: number): ByteText {
    const { click_id, query, rule, trigger, timeMs, timeBytes, link, agent, headers, address } = this.#plain;
    if (!trigger || !link || !agent || !headers || !address) return nothing;
    return (
      shortBytes(click_id) +
      rawBytes(query) +
      rawBytes(rule) +
      trigger.encoded +
      timeBytes +
      idxBytes(idx) +
      link.encoded +
      agent.encoded +
      headers.encoded +
      address.encoded +
      this.#options.visitors.encodedOf(dayOf(timeMs), link.app, address.hashed, agent.hashed)
    );
  }
}

function shortBytes(ascii: string): ByteText {
  return String.fromCharCode(ascii.length) + ascii;
}

/** Encodes a String whose bytes are already UTF-8. */
function rawBytes(bytes: ByteText): ByteText {
  if (bytes.length < 0x80) return String.fromCharCode(bytes.length) + bytes;
  return String.fromCharCode((bytes.length & 0x7f) | 0x80, bytes.length >>> 7) + bytes;
}
