/** The address at the other end of a connection. */
import { inOnePiece } from '#common/redirect/one-piece.ts';
import type { HttpResponse } from './uws.ts';

/** The peer's address as text; an IPv4-mapped IPv6 address as IPv4. */
export function socketAddress(res: HttpResponse): string {
  const bytes = new Uint8Array(res.getRemoteAddress());
  if (bytes.length === 4) return dotted(bytes, 0);
  if (bytes.length !== 16) return '';
  if (isMapped(bytes)) return dotted(bytes, 12);
  return compressed(bytes);
}

/** Addresses as flat strings: a string concatenated at each visit would be traversed when it is written. */
const dottedKnown = new Map<number, string>();
const dottedMax = 10_000;

function dotted(bytes: Uint8Array, at: number): string {
  const a = bytes[at] ?? 0;
  const b = bytes[at + 1] ?? 0;
  const c = bytes[at + 2] ?? 0;
  const d = bytes[at + 3] ?? 0;
  const number = (a << 24) | (b << 16) | (c << 8) | d;
  const known = dottedKnown.get(number);
  if (known !== undefined) return known;
  if (dottedKnown.size >= dottedMax) dottedKnown.clear();
  const text = inOnePiece(`${a}.${b}.${c}.${d}`);
  dottedKnown.set(number, text);
  return text;
}

function isMapped(bytes: Uint8Array): boolean {
  for (let at = 0; at < 10; at++) if (bytes[at] !== 0) return false;
  return bytes[10] === 0xff && bytes[11] === 0xff;
}

/** RFC 5952: the URL parser writes addresses in this form. */
function compressed(bytes: Uint8Array): string {
  const groups: string[] = [];
  for (let at = 0; at < 16; at += 2) groups.push((((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)).toString(16));
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1);
}
