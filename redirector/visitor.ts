/**
 * Reads the fields of a request before the handler returns, because uWebSockets.js invalidates the request after that.
 */
import type { AddressWriter } from '#common/address-writer.ts';
import type { Forwarded, TrustedProxies } from '#common/http/peer.ts';
import { asBytes, type HttpRequest } from '#common/http/uws.ts';
import type { LinkedApp } from '#common/links/link-snapshot.ts';
import type { QueryFilter } from '#common/links/query-filter.ts';
import { clickTextMax, cut } from '#common/log/record.ts';
import type { Visitor } from '#common/redirect/visitor.ts';
import { withoutHops } from './hops.ts';

const hostName = asBytes('host');
const userAgent = asBytes('user-agent');
const acceptLanguage = asBytes('accept-language');
const referer = asBytes('referer');

export function hostHeaderOf(req: HttpRequest): string {
  return req.getHeader(hostName);
}

/** The header is only read if the answer depends on it. */
export function acceptOf(accept: string | HttpRequest): string {
  return typeof accept === 'string' ? accept : accept.getHeader('accept');
}

/** @param ip the address of the connection. */
export function readVisitor(
  req: HttpRequest,
  ip: string,
  proxies: TrustedProxies | null,
  is_prefetch: boolean,
): Visitor {
  return {
    ip: proxies?.has(ip) ? proxies.peer(ip, false, forwardedBy(req)).ip : ip,
    user_agent: req.getHeader(userAgent),
    language: req.getHeader(acceptLanguage),
    referrer: requestOriginOf(req.getHeader(referer)),
    // Undefined if there is no question mark, whatever its type says.
    query: req.getQuery() ?? '',
    is_prefetch,
  };
}

const schemeAndAuthority = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i;

/** Scheme and host of a referrer. For privacy, its path and query are not recorded. */
export function requestOriginOf(referrer: string): string {
  if (referrer === '') return '';
  const end = plainOriginEnd(referrer);
  if (end > 0) return referrer.slice(0, end);
  const origin = schemeAndAuthority.exec(referrer)?.[0] ?? '';
  const at = origin.lastIndexOf('@');
  return at === -1 ? origin : origin.slice(0, origin.indexOf('//') + 2) + origin.slice(at + 1);
}

/** Where the origin of an https referrer ends; 0 if it needs the regular expression, which takes four times as long. */
function plainOriginEnd(referrer: string): number {
  if (!referrer.startsWith('https://')) return 0;
  for (let at = 8; at < referrer.length; at++) {
    switch (referrer.charCodeAt(at)) {
      case 0x2f: // slash
      case 0x3f: // question mark
      case 0x23: // hash
        return at;
      case 0x40: // at sign
        return 0;
    }
  }
  return referrer.length;
}

/**
 * X-Forwarded-For with all its lines, which are one list (RFC 9110 section 5.3). `getHeader` returns only the first,
 * which is the client's own if a proxy adds a line instead of an entry.
 */
function forwardedBy(req: HttpRequest): Forwarded {
  let list = '';
  let secret = '';
  req.forEach((name, value) => {
    if (name === 'x-forwarded-for') list = list === '' ? value : `${list}, ${value}`;
    if (name === 'x-signpost-proxy') secret = value;
  });
  return { for: list, proto: '', secret };
}

/** The Host header without its port, in lower case. */
export function requestHostOf(header: string): string {
  const colon = header.indexOf(':');
  return (colon === -1 ? header : header.slice(0, colon)).toLowerCase();
}

/** The longest host name (RFC 1035), a colon and a port. */
const hostHeaderMax = 259;

/** Whether a Host header has a valid length and a valid port. */
export function isHostHeader(header: string): boolean {
  return header.length <= hostHeaderMax && /^[^:]*(?::\d{1,5})?$/.test(header);
}

/** Whether the name can be a short-link host; others need no lookup. */
export function isHost(host: string): boolean {
  return host.length <= 253 && /^[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?$/.test(host);
}

/** What the names of all headers say, read in one pass, which costs less than looking up each. */
export interface HeaderFacts {
  /**
   * Whether two servers in a chain could read the request differently: more than one host, more than one length, or a length
   * and chunks (RFC 9112 sections 3.2 and 6.3).
   */
  readonly isAmbiguous: boolean;
  readonly hasLength: boolean;
  readonly isPrefetch: boolean;
}

/**
 * Sec-Purpose (Fetch standard) may contain more: `prefetch;prerender`. Purpose is its older name, X-Purpose that of Safari, which
 * shows its most visited pages, and X-Moz that of Firefox until 2023.
 */
const purposes = new Set(['sec-purpose', 'purpose', 'x-purpose', 'x-moz']);

export function headerFacts(req: HttpRequest): HeaderFacts {
  let hosts = 0;
  let lengths = 0;
  let isChunked = false;
  let isPrefetch = false;
  req.forEach((name, value) => {
    if (name === 'host') hosts++;
    else if (name === 'content-length') lengths++;
    else if (name === 'transfer-encoding') isChunked = true;
    else if (purposes.has(name)) isPrefetch ||= /prefetch|prerender|preview/i.test(value);
  });
  const isAmbiguous = hosts > 1 || lengths > 1 || (lengths === 1 && isChunked);
  return { isAmbiguous, hasLength: lengths > 0, isPrefetch };
}

/** The visitor without data that the app, or the operator, does not want to be recorded. */
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
    query: query === '' ? '' : wholeParameters(queryFilter.recorded(withoutHops(query))),
    is_prefetch,
  };
}

/**
 * As much of a query as a click holds, without half a parameter at its end: the click's campaign, and later that of its
 * install, is read from what is recorded.
 */
export function wholeParameters(query: string): string {
  const max = clickTextMax.query;
  if (query.length <= max) return query;
  const end = query.lastIndexOf('&', max);
  return end > 0 ? query.slice(0, end) : cut(query, max);
}
