/** The fields of a request, read before the handler returns: uWebSockets.js then invalidates the request. */
import type { AddressWriter } from '#common/address-writer.ts';
import type { TrustedProxies } from '#common/http/peer.ts';
import { socketAddress } from '#common/http/socket-address.ts';
import type { HttpRequest, HttpResponse } from '#common/http/uws.ts';
import type { LinkedApp } from '#common/links/link-snapshot.ts';
import type { QueryFilter } from '#common/links/query-filter.ts';
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

/** The visitor without what the app, or the operator, does not want recorded. */
export function recordedVisitor(
  { ip, user_agent, language, referrer, query, is_prefetch }: Visitor,
  { privacy_mode }: Pick<LinkedApp, 'privacy_mode'>,
  nowMs: number,
  addresses: AddressWriter,
  queryFilter: QueryFilter,
): Visitor {
  return {
    ip: privacy_mode === 'full_ip' ? ip : addresses.ofClick(ip, privacy_mode, nowMs),
    user_agent,
    language,
    referrer,
    query: query === '' ? '' : queryFilter.recorded(query),
    is_prefetch,
  };
}
