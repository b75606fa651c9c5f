/**
 * Turns lines of clicks exactly as the edge writes them into rows without parsing JSON: most pieces of a line were seen
 * before, and their columns are cached by the bytes of the piece. A new piece is parsed as JSON with its whole line, and
 * cached only if both readings of the line agree. A line that is not plain (an escape, another order, an unknown field) is
 * parsed as JSON; a line that is no valid click leaves its frame to the caller, so this file never decides what is rejected.
 */
import { isUtf8 } from 'node:buffer';
import { type ByteText, uint64Bytes } from '#clickhouse/row-binary.ts';
import { BoundedMap } from '#common/bounded-map.ts';
import { isId } from '#common/ids.ts';
import {
  clickHead,
  linkFieldsJson,
  linkIdNames,
  textName,
  timeName,
  triggerJson,
  visitorTexts,
} from '#common/log/click-line.ts';
import { clickTextMax, clickTriggers, type PrivacyMode } from '#common/log/record.ts';
import { type ClickRows, type FrameOrigin, idxBytes, originBytes, triggerBytes } from './click-rows.ts';
import { behind, ClickScanner, utf8 } from './click-scanner.ts';
import type { Enrichment, StepName } from './enrichment.ts';
import { decodeClick, isRejection, isTime } from './record-decoder.ts';
import { visitorAddress } from './stored-address.ts';
import { dayOf, type HashedText, type Visitors } from './visitors.ts';

export interface ClickFastPathOptions {
  readonly clickRows: ClickRows;
  /** Columns are taken from its steps; only `number_visitor` is done here, from texts that are already hashed. */
  readonly enrichment: Enrichment;
  readonly visitors: Visitors;
  /** Whether the salt of a UTC day is loaded. */
  readonly isDayKnown: (day: number) => boolean;
}

/** Rows of a frame, one after the other; or the UTC day that must be prepared first. */
export type PlainRows =
  | { readonly rows: ByteText; readonly timeFrom: number; readonly timeTo: number }
  | { readonly unknownDay: number };

interface Piece {
  readonly encoded: ByteText;
  readonly bytes: number;
  isUsed: boolean;
}
interface LinkPiece extends Piece {
  /** Its fields as they are in a line. */
  readonly text: string;
  readonly mode: PrivacyMode;
  readonly app: HashedText;
}
interface VisitorPiece extends Piece {
  readonly hashed: HashedText;
}

const idChars = 30;
const timeChars = 13;
const timeAt = clickHead.length + idChars + timeName.length;
/** Where the fields of the link begin, and in them the link's id. */
const linkAt = timeAt + timeChars;
const linkIdAt = linkAt + linkIdNames.reduce((sum, [, before]) => sum + before.length + idChars, -idChars);
const [agentName, ipName, languageName, referrerName, queryName] = visitorTexts.map(textName) as Five;
type Five = [string, string, string, string, string];
const ruleName = textName('rule');
const lineEnd = '}';
const triggers = clickTriggers.map((trigger) => ({ text: triggerJson(trigger), encoded: triggerBytes[trigger] }));
const triggerStart = ',"trigger":"';
const plainTime = /^[1-9]\d{12}$/;
const control = /[\0-\x1f]/;
const newline = 0x0a;
/** The steps whose columns a row has, in the order in which `#row` joins them. */
const pieceSteps: readonly StepName[] = [
  'copy_link_fields',
  'detect_device',
  'read_headers',
  'anonymize_address',
  'number_visitor',
];
/** Bytes of an entry beside its texts. */
const entryBytes = 300;
/** Of each kind of piece. */
const piecesMax = 100_000;
const pieceBytesMax = 48_000_000;
const nothing: ByteText = '';

export class ClickFastPath {
  readonly #options: ClickFastPathOptions;
  readonly #links = new BoundedMap<LinkPiece>(piecesMax, pieceBytesMax);
  readonly #agents = new BoundedMap<VisitorPiece>(piecesMax, pieceBytesMax);
  readonly #headers = new BoundedMap<Piece>(piecesMax, pieceBytesMax);
  /** What an address becomes depends on the privacy mode. */
  readonly #addresses: Readonly<Record<PrivacyMode, BoundedMap<VisitorPiece>>> = {
    anonymize_ip: new BoundedMap(piecesMax, pieceBytesMax),
    full_ip: new BoundedMap(piecesMax, pieceBytesMax),
    no_ip: new BoundedMap(piecesMax, pieceBytesMax),
  };
  #time = '';
  #timeMs = 0;
  #timeBytes: ByteText = nothing;

  constructor(options: ClickFastPathOptions) {
    const inRow = options.enrichment.steps.map((step) => step.name).join();
    if (inRow !== pieceSteps.join()) throw new Error(`The click fast path writes ${pieceSteps}, not ${inRow}.`);
    this.#options = options;
  }

  /** The rows of a frame's clicks; `undefined` when one of them is no valid click, or their number is not the announced one. */
  rowsOf(payload: Buffer, records: number, origin: FrameOrigin): PlainRows | undefined {
    if (payload.at(-1) !== newline || !isUtf8(payload)) return undefined;
    const text = payload.toString('latin1');
    const from = originBytes(origin);
    const { isDayKnown } = this.#options;
    let escapeAt = text.indexOf('\\');
    let [rows, timeFrom, timeTo] = [nothing, Number.POSITIVE_INFINITY, 0];
    let idx = 0;
    for (let at = 0; at < text.length; idx++) {
      const end = text.indexOf('\n', at);
      const isPlain = (escapeAt === -1 || escapeAt > end) && this.#readTime(text, at);
      if (escapeAt !== -1 && escapeAt < end) escapeAt = text.indexOf('\\', end);
      let timeMs = this.#timeMs;
      if (isPlain && !isDayKnown(dayOf(timeMs))) return { unknownDay: dayOf(timeMs) };
      const row = isPlain ? this.#row(text, at, end, idx) : undefined;
      this.#options.enrichment.clickLines.read++;
      if (row !== undefined) {
        rows += row + from;
      } else {
        this.#options.enrichment.clickLines.parsed++;
        const click = decodeClick(utf8(text.slice(at, end)));
        if (isRejection(click)) return undefined;
        timeMs = click.time;
        if (!isDayKnown(dayOf(timeMs))) return { unknownDay: dayOf(timeMs) };
        rows += this.#options.clickRows.encode([click], [idx], origin)[0] ?? nothing;
      }
      timeFrom = Math.min(timeFrom, timeMs);
      timeTo = Math.max(timeTo, timeMs);
      at = end + 1;
    }
    return idx === records ? { rows, timeFrom, timeTo } : undefined;
  }

  /** The clicks of a frame share few distinct milliseconds. */
  #readTime(text: string, at: number): boolean {
    if (text.startsWith(this.#time, at + timeAt) && this.#time !== '') return true;
    const time = text.slice(at + timeAt, at + linkAt);
    const ms = plainTime.test(time) ? Number(time) : 0;
    if (!isTime(ms)) return false;
    [this.#time, this.#timeMs, this.#timeBytes] = [ownCopy(time), ms, uint64Bytes(ms)];
    return true;
  }

  #row(text: string, from: number, end: number, idx: number): ByteText | undefined {
    const idAt = from + clickHead.length;
    const clickId = text.slice(idAt, idAt + idChars);
    if (!text.startsWith(clickHead, from) || !text.startsWith(timeName, idAt + idChars) || !isId('clk', clickId)) {
      return undefined;
    }
    const line = new ClickScanner(text, from, end);
    const link = this.#link(line);
    if (link === undefined) return undefined;
    const triggerAt = from + linkAt + link.text.length;
    const trigger = triggers.find((one) => text.startsWith(one.text, triggerAt));
    if (trigger === undefined) return undefined;
    const agentFrom = triggerAt + trigger.text.length;
    const agentTo = behind(text, agentFrom, agentName);
    const ipTo = behind(text, agentTo, ipName);
    const headersTo = behind(text, behind(text, ipTo, languageName), referrerName);
    const queryTo = behind(text, headersTo, queryName);
    const ruleTo = behind(text, queryTo, ruleName);
    // Nothing else is in the line, so no field is in it twice: its pieces say the same as its JSON.
    if (ruleTo + lineEnd.length !== end || !text.startsWith(lineEnd, ruleTo)) return undefined;
    const agent = this.#agent(line, agentFrom, agentTo);
    const address = this.#address(line, agentTo, ipTo, link.mode);
    const headers = this.#header(line, ipTo, headersTo);
    const query = queryTo === headersTo ? '' : text.slice(headersTo + queryName.length, queryTo - 1);
    if (!address || !agent || !headers || query.length > clickTextMax.query || control.test(query)) return undefined;
    const rule = ruleTo === queryTo ? '' : text.slice(queryTo + ruleName.length, ruleTo - 1);
    if (rule.length > clickTextMax.rule || control.test(rule)) return undefined;
    if (line.isParsed) this.#options.enrichment.clickLines.parsed++;
    return (
      shortBytes(clickId) +
      rawBytes(query) +
      rawBytes(rule) +
      trigger.encoded +
      this.#timeBytes +
      idxBytes(idx) +
      link.encoded +
      agent.encoded +
      headers.encoded +
      address.encoded +
      this.#options.visitors.encodedOf(dayOf(this.#timeMs), link.app, address.hashed, agent.hashed)
    );
  }

  #link(line: ClickScanner): LinkPiece | undefined {
    const { text, from } = line;
    const key = text.slice(from + linkIdAt, from + linkIdAt + idChars);
    const known = this.#links.get(key);
    if (known !== undefined && text.startsWith(known.text, from + linkAt)) {
      // A link that was given a campaign since begins with the same fields.
      if (text.startsWith(triggerStart, from + linkAt + known.text.length)) return known;
    }
    const { click } = line;
    if (click === undefined) return undefined;
    const own = ownCopy(linkFieldsJson(click));
    if (!text.startsWith(own, from + linkAt)) return undefined;
    const encoded = this.#options.enrichment.columnsOf('copy_link_fields', click);
    const piece = {
      encoded,
      text: own,
      mode: click.privacy_mode,
      app: { text: click.app_id, words: undefined },
      bytes: entryBytes + 2 * encoded.length + own.length,
      isUsed: false,
    };
    this.#links.set(click.link_id, piece);
    return piece;
  }

  #address(line: ClickScanner, from: number, to: number, mode: PrivacyMode): VisitorPiece | undefined {
    const addresses = this.#addresses[mode];
    const key = line.text.slice(from, to);
    const known = addresses.get(key);
    if (known !== undefined) return known;
    const { click } = line;
    if (click === undefined || line.value(from, to, ipName) !== click.ip) return undefined;
    return cached(
      addresses,
      key,
      this.#options.enrichment.columnsOf('anonymize_address', click),
      visitorAddress(click.ip),
    );
  }

  #agent(line: ClickScanner, from: number, to: number): VisitorPiece | undefined {
    const key = line.text.slice(from, to);
    const known = this.#agents.get(key);
    if (known !== undefined) return known;
    const { click } = line;
    if (click === undefined || line.value(from, to, agentName) !== click.user_agent) return undefined;
    return cached(this.#agents, key, this.#options.enrichment.columnsOf('detect_device', click), click.user_agent);
  }

  #header(line: ClickScanner, from: number, to: number): Piece | undefined {
    const key = line.text.slice(from, to);
    const known = this.#headers.get(key);
    if (known !== undefined) return known;
    const { click, text } = line;
    const between = behind(text, from, languageName);
    const isSame =
      click !== undefined &&
      line.value(from, between, languageName) === click.language &&
      line.value(between, to, referrerName) === click.referrer;
    if (!isSame) return undefined;
    const encoded = this.#options.enrichment.columnsOf('read_headers', click);
    const piece = { encoded, bytes: entryBytes + key.length + encoded.length, isUsed: false };
    this.#headers.set(ownCopy(key), piece);
    return piece;
  }
}

/** Caches a piece of a line. */
function cached(map: BoundedMap<VisitorPiece>, key: string, encoded: ByteText, text: string): VisitorPiece {
  const bytes = entryBytes + key.length + encoded.length + text.length;
  const piece = { encoded, hashed: { text, words: undefined }, bytes, isUsed: false };
  map.set(ownCopy(key), piece);
  return piece;
}

/** A copy of a piece of a text that does not keep the whole text in memory. */
function ownCopy(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

function shortBytes(ascii: string): ByteText {
  return String.fromCharCode(ascii.length) + ascii;
}

/** String, of bytes that are UTF-8 already. */
function rawBytes(bytes: ByteText): ByteText {
  if (bytes.length < 0x80) return String.fromCharCode(bytes.length) + bytes;
  return String.fromCharCode((bytes.length & 0x7f) | 0x80, bytes.length >>> 7) + bytes;
}
