/**
 * Reads click lines exactly as the edge writes them, without parsing JSON: most pieces of a line have occurred before,
 * and the columns that follow from a piece are cached by its bytes. JSON is parsed only for a new link, and then for
 * its whole line. A line that is not plain (an escape, another order, an unknown field) is left to the caller.
 */
import { isUtf8 } from 'node:buffer';
import { type ByteText, uint64Bytes } from '#clickhouse/row-binary.ts';
import { BoundedMap } from '#common/bounded-map.ts';
import { campaignFrom } from '#common/campaign-fields.ts';
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
import { type Click, type ClickText, clickTextMax, clickTriggers, type PrivacyMode } from '#common/log/record.ts';
import { triggerBytes } from './click-rows.ts';
import type { Enrichment, StepName } from './enrichment.ts';
import { decodeClick, isRejection, isTime } from './record-decoder.ts';
import { visitorAddress } from './stored-address.ts';
import type { HashedText } from './visitors.ts';

/** The encoded columns that follow from a piece of a line. */
interface Piece {
  readonly encoded: ByteText;
  readonly bytes: number;
  isUsed: boolean;
}
interface LinkPiece extends Piece {
  /** Its fields as they appear in a line. */
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
/** Position of the link's fields in a line, and of the link's id. */
const linkAt = timeAt + timeChars;
const linkIdAt = linkAt + linkIdNames.reduce((sum, [, before]) => sum + before.length + idChars, -idChars);
const [agentName, ipName, languageName, referrerName, queryName] = visitorTexts.map(textName) as Five;
type Five = [string, string, string, string, string];
const ruleName = textName('rule');
const lineEnd = '}';
const triggers = clickTriggers.map((trigger) => ({ text: triggerJson(trigger), encoded: triggerBytes[trigger] }));
type ReadTrigger = (typeof triggers)[number];
const triggerStart = ',"trigger":"';
const plainTime = /^[1-9]\d{12}$/;
const control = /[\0-\x1f]/;
const ascii = /^[\0-\x7f]*$/;
const newline = 0x0a;
/** Bytes of an entry in addition to its texts. */
const entryBytes = 300;
/** Maximum pieces of each kind. */
const piecesMax = 100_000;
const pieceBytesMax = 48_000_000;
const nothing: ByteText = '';
/** Values for the fields that are not in a piece when its columns are computed. */
const blank: Click = {
  ...{ click_id: '', organization_id: '', app_id: '', link_id: '', time: 0, privacy_mode: 'no_ip', trigger: 'link' },
  ...{ ip: '', user_agent: '', language: '', referrer: '', query: '', rule: '', is_prefetch: false, is_preview: false },
  ...campaignFrom(() => ''),
};

/**
 * The payload of a frame as text with one character per byte; `undefined` unless it consists of whole lines of UTF-8.
 */
export function linesText(payload: Buffer): ByteText | undefined {
  return payload.at(-1) === newline && isUtf8(payload) ? payload.toString('latin1') : undefined;
}

export class PlainClicks {
  /** Values of the most recently read line. */
  click_id = '';
  timeMs = 0;
  timeBytes: ByteText = nothing;
  link: LinkPiece | undefined;
  trigger: ReadTrigger | undefined;
  agent: VisitorPiece | undefined;
  address: VisitorPiece | undefined;
  headers: Piece | undefined;
  /** As bytes, which need no escape. */
  query: ByteText = nothing;
  rule: ByteText = nothing;
  /** Set when a line is parsed as JSON, because its link is new. */
  isParsed = false;
  readonly #enrichment: Enrichment;
  readonly #links = new BoundedMap<LinkPiece>(piecesMax, pieceBytesMax);
  readonly #agents = new BoundedMap<VisitorPiece>(piecesMax, pieceBytesMax);
  readonly #headers = new BoundedMap<Piece>(piecesMax, pieceBytesMax);
  /** By privacy mode, which determines the columns of an address. */
  readonly #addresses: Readonly<Record<PrivacyMode, BoundedMap<VisitorPiece>>> = {
    anonymize_ip: new BoundedMap(piecesMax, pieceBytesMax),
    full_ip: new BoundedMap(piecesMax, pieceBytesMax),
    no_ip: new BoundedMap(piecesMax, pieceBytesMax),
  };
  #time = '';

  constructor(enrichment: Enrichment) {
    this.#enrichment = enrichment;
  }

  /** Reads a line that contains no backslash. @returns false if it is not plain, or not a valid click. */
  read(text: ByteText, from: number, end: number): boolean {
    const idAt = from + clickHead.length;
    if (!text.startsWith(clickHead, from) || !text.startsWith(timeName, idAt + idChars)) return false;
    this.click_id = text.slice(idAt, idAt + idChars);
    if (!this.#readTime(text, from) || !isId('clk', this.click_id)) return false;
    const link = this.#readLink(text, from, end);
    if (link === undefined) return false;
    const triggerAt = from + linkAt + link.text.length;
    const trigger = triggers.find((one) => text.startsWith(one.text, triggerAt));
    if (trigger === undefined) return false;
    this.link = link;
    this.trigger = trigger;
    return this.#readVisitor(text, triggerAt + trigger.text.length, end, link.mode);
  }

  /**
   * Succeeds only if the line contains nothing else. So no field occurs twice, and the pieces mean the same as the
   * JSON.
   */
  #readVisitor(text: ByteText, from: number, end: number, mode: PrivacyMode): boolean {
    const agentTo = behind(text, from, agentName);
    const ipTo = behind(text, agentTo, ipName);
    const languageTo = behind(text, ipTo, languageName);
    const headersTo = behind(text, languageTo, referrerName);
    const queryTo = behind(text, headersTo, queryName);
    const ruleTo = behind(text, queryTo, ruleName);
    if (ruleTo + lineEnd.length !== end || !text.startsWith(lineEnd, ruleTo)) return false;
    this.query = queryTo === headersTo ? nothing : text.slice(headersTo + queryName.length, queryTo - 1);
    this.rule = ruleTo === queryTo ? nothing : text.slice(queryTo + ruleName.length, ruleTo - 1);
    if (!isSound('query', this.query) || !isSound('rule', this.rule)) return false;
    this.agent = this.#agentOf(text.slice(from, agentTo));
    this.address = this.#addressOf(text.slice(agentTo, ipTo), mode);
    this.headers = this.#headersOf(text.slice(ipTo, headersTo), languageTo - ipTo);
    return this.agent !== undefined && this.address !== undefined && this.headers !== undefined;
  }

  /** The clicks of a frame share few distinct milliseconds, so the latest time is cached. */
  #readTime(text: ByteText, from: number): boolean {
    if (this.#time !== '' && text.startsWith(this.#time, from + timeAt)) return true;
    const time = text.slice(from + timeAt, from + linkAt);
    const ms = plainTime.test(time) ? Number(time) : 0;
    if (!isTime(ms)) return false;
    [this.#time, this.timeMs, this.timeBytes] = [ownCopy(time), ms, uint64Bytes(ms)];
    return true;
  }

  #readLink(text: ByteText, from: number, end: number): LinkPiece | undefined {
    const at = from + linkAt;
    const known = this.#links.get(text.slice(from + linkIdAt, from + linkIdAt + idChars));
    // V8 compares whole strings word by word, but `startsWith` character by character.
    if (known !== undefined && text.slice(at, at + known.text.length) === known.text) {
      // If the link has since got a campaign, its line begins with the same fields but continues differently.
      if (text.startsWith(triggerStart, at + known.text.length)) return known;
    }
    this.isParsed = true;
    const click = decodeClick(utf8(text.slice(from, end)));
    if (isRejection(click)) return undefined;
    const own = ownCopy(linkFieldsJson(click));
    if (!text.startsWith(own, at)) return undefined;
    const encoded = this.#enrichment.columnsOf('copy_link_fields', click);
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

  #agentOf(key: ByteText): VisitorPiece | undefined {
    const known = this.#agents.get(key);
    if (known !== undefined) return known;
    const user_agent = textIn('user_agent', key);
    if (user_agent === undefined) return undefined;
    return visitorPiece(this.#agents, key, this.#columns('detect_device', { user_agent }), user_agent);
  }

  #addressOf(key: ByteText, privacy_mode: PrivacyMode): VisitorPiece | undefined {
    const addresses = this.#addresses[privacy_mode];
    const known = addresses.get(key);
    if (known !== undefined) return known;
    const ip = textIn('ip', key);
    if (ip === undefined) return undefined;
    return visitorPiece(addresses, key, this.#columns('anonymize_address', { ip, privacy_mode }), visitorAddress(ip));
  }

  /** @param languageLength length of the first of the two headers in the piece, including its name. */
  #headersOf(key: ByteText, languageLength: number): Piece | undefined {
    const known = this.#headers.get(key);
    if (known !== undefined) return known;
    const language = textIn('language', key.slice(0, languageLength));
    const referrer = textIn('referrer', key.slice(languageLength));
    if (language === undefined || referrer === undefined) return undefined;
    const encoded = this.#columns('read_headers', { language, referrer });
    const piece = { encoded, bytes: entryBytes + key.length + encoded.length, isUsed: false };
    this.#headers.set(ownCopy(key), piece);
    return piece;
  }

  /** Fields outside the piece are blank: a step reads only those of its piece. */
  #columns(step: StepName, fields: Partial<Click>): ByteText {
    return this.#enrichment.columnsOf(step, { ...blank, ...fields });
  }
}

/** Caches a piece of a line. */
function visitorPiece(map: BoundedMap<VisitorPiece>, key: ByteText, encoded: ByteText, text: string): VisitorPiece {
  const bytes = entryBytes + key.length + encoded.length + text.length;
  const piece = { encoded, hashed: { text, words: undefined }, bytes, isUsed: false };
  map.set(ownCopy(key), piece);
  return piece;
}

/** The value of a field, without its name; `undefined` if no valid click can have it. */
function textIn(name: ClickText, field: ByteText): string | undefined {
  const bytes = field.slice(textName(name).length, -1);
  const value = field === nothing ? nothing : Buffer.from(bytes, 'latin1').toString();
  return isSound(name, value) ? value : undefined;
}

/** Works on bytes too: a text has at least as many bytes as characters. */
function isSound(name: ClickText, value: string): boolean {
  return value.length <= clickTextMax[name] && (value === nothing || !control.test(value));
}

/**
 * The end of the named field, if it begins at `at`; otherwise `at`. The end of the text if the field is not terminated.
 */
function behind(text: ByteText, at: number, name: string): number {
  if (!text.startsWith(name, at)) return at;
  const end = text.indexOf('"', at + name.length);
  return end === -1 ? text.length : end + 1;
}

export function utf8(bytes: ByteText): string {
  return ascii.test(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString();
}

/** A copy of a part of a string that does not keep the whole string in memory. */
function ownCopy(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
