/** Forms that the text of a setting must have. Each gives the value as it is kept, or null for text that is none. */
import { Resolver } from 'node:dns';
import { TrustedProxies } from '#common/http/peer.ts';
import { hostOf } from '#common/links/web-address.ts';

/** A network in CIDR form, or one address, as TRUSTED_PROXIES takes it. */
export function parseNetwork(text: string): string | null {
  try {
    new TrustedProxies([text]);
    return text;
  } catch {
    return null;
  }
}

/** The address of a DNS server, with a port if it is not 53. */
export function dnsServerOf(text: string): string | null {
  try {
    new Resolver().setServers([text]);
    return text;
  } catch {
    return null;
  }
}

/** What a browser writes into Origin: scheme, host and port alone. Any other text would match no request ever. */
export function parseOrigin(text: string): string | null {
  if (!URL.canParse(text)) return null;
  const { protocol, origin } = new URL(text);
  if (protocol === 'http:' || protocol === 'https:') return origin === text ? text : null;
  return /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#*@]+$/.test(text) ? text : null;
}

/** A domain to put labels in front of: localhost, or a host name with more labels. */
export function domainOf(text: string): string | null {
  return hostOf(`x.${text.trim()}`)?.slice('x.'.length) ?? null;
}

/** The base URL of an API: a web address ending in /v1. */
export function baseUrlOf(text: string): string | null {
  return /^https?:\/\/[^\s/?#@]+(?:\/[^\s?#]+)?\/v1$/.test(text) && URL.canParse(text) ? text : null;
}
