/** The fields of a request, read before the handler returns: uWebSockets.js then invalidates the request. */
import type { TrustedProxies } from '#common/http/peer.ts';
import type { HttpRequest, HttpResponse } from '#common/http/uws.ts';
import { inOnePiece } from '#common/redirect/one-piece.ts';
import type { Visitor } from '#common/redirect/visitor.ts';

export function readVisitor(req: HttpRequest, res: HttpResponse, proxies: TrustedProxies | null): Visitor {
  const ip = socketAddress(res);
  return {
    ip: proxies?.has(ip) ? proxies.peer(ip, false, forwardedFor(req), '').ip : ip,
    user_agent: req.getHeader('user-agent'),
    language: req.getHeader('accept-language'),
    referrer: requestOriginOf(req.getHeader('referer')),
    // Undefined if there is no question mark, whatever its type says.
    query: req.getQuery() ?? '',
    is_prefetch: isPrefetch(req),
  };
}

const schemeAndAuthority = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i;

/** Scheme and host of a referrer. For privacy, its path and query are not recorded. */
export function requestOriginOf(referrer: string): string {
  if (referrer === '') return '';
  const origin = schemeAndAuthority.exec(referrer)?.[0] ?? '';
  const at = origin.lastIndexOf('@');
  return at === -1 ? origin : origin.slice(0, origin.indexOf('//') + 2) + origin.slice(at + 1);
}

/**
 * X-Forwarded-For with all its lines, which are one list (RFC 9110 section 5.3). `getHeader` returns only the first,
 * which is the client's own if a proxy adds a line instead of an entry.
 */
function forwardedFor(req: HttpRequest): string {
  let list = '';
  req.forEach((name, value) => {
    if (name === 'x-forwarded-for') list = list === '' ? value : `${list}, ${value}`;
  });
  return list;
}

/**
 * Sec-Purpose (Fetch standard) may contain more: `prefetch;prerender`. Purpose is its older name. Firefox sent X-Moz
 * until 2023; it is not checked, since every redirect would pay for one more header.
 */
function isPrefetch(req: HttpRequest): boolean {
  const purpose = req.getHeader('sec-purpose') || req.getHeader('purpose');
  return purpose !== '' && /prefetch/i.test(purpose);
}

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

/** The Host header without its port, in lower case. */
export function requestHostOf(header: string): string {
  const colon = header.indexOf(':');
  return (colon === -1 ? header : header.slice(0, colon)).toLowerCase();
}

/** The longest name (RFC 1035), a colon and a port. */
const hostHeaderMax = 259;

/** Whether a Host header has a valid length and a valid port. */
export function isHostHeader(header: string): boolean {
  return header.length <= hostHeaderMax && /^[^:]*(?::\d{1,5})?$/.test(header);
}

/** Names that can be a short-link host; anything else is not worth a look-up. */
export function isHost(host: string): boolean {
  return host.length <= 253 && /^[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?$/.test(host);
}

/**
 * Whether two servers in a row could read the request differently: more than one length, or a length and chunks (RFC
 * 9112 section 6.3). Only called if there is a Content-Length.
 */
export function isAmbiguous(req: HttpRequest): boolean {
  let lengths = 0;
  let isChunked = false;
  req.forEach((name) => {
    if (name === 'content-length') lengths++;
    if (name === 'transfer-encoding') isChunked = true;
  });
  return lengths > 1 || (lengths === 1 && isChunked);
}
