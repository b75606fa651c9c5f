/** Formats of settings. Each function returns the value in its stored form, or null for invalid text. */
import { createPublicKey } from 'node:crypto';
import { Resolver } from 'node:dns';
import { TrustedProxies } from '#common/http/peer.ts';
import { hostOf } from '#common/links/web-address.ts';

/** A network in CIDR notation, or one address, for TRUSTED_PROXIES. */
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

/** What a browser sends as Origin: only scheme, host and port. Any other text would never match a request. */
export function parseOrigin(text: string): string | null {
  if (!URL.canParse(text)) return null;
  const { protocol, origin } = new URL(text);
  if (protocol === 'http:' || protocol === 'https:') return origin === text ? text : null;
  return /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#*@]+$/.test(text) ? text : null;
}

/** A domain under which labels are added: localhost, or a host name with more labels. */
export function domainOf(text: string): string | null {
  return hostOf(`x.${text.trim()}`)?.slice('x.'.length) ?? null;
}

/** The base URL of an API: a web address ending in /v1. */
export function baseUrlOf(text: string): string | null {
  return /^https?:\/\/[^\s/?#@]+(?:\/[^\s?#]+)?\/v1$/.test(text) && URL.canParse(text) ? text : null;
}

/** The base URL of an OpenTelemetry collector. A password belongs in a header, which is not shown. */
export function plainUrlOf(text: string): string | null {
  if (!URL.canParse(text)) return null;
  const { protocol, username, password, search, hash } = new URL(text);
  return /^https?:$/.test(protocol) && username + password + search + hash === '' ? text : null;
}

/** `name=value,name=value`, values percent-encoded, as OpenTelemetry defines the headers of an exporter. */
export function headersOf(text: string): Record<string, string> | null {
  const headers: Record<string, string> = {};
  for (const pair of text.split(',').filter((one) => one.trim() !== '')) {
    const [, name, value] = /^\s*([!#$%&'*+.^_`|~\w-]+)\s*=\s*([\x21-\x7e]*)\s*$/.exec(pair) ?? [];
    if (name === undefined || value === undefined || /%(?![2-7][0-9a-f])/i.test(value)) return null;
    headers[name] = decodeURIComponent(value);
  }
  return headers;
}

/** `user@host`, or `Name <user@host>`. Null for anything else, and for more than one. */
export function mailAddressOf(text: string): string | null {
  const address = /^(?:[^<>"@,\p{Cc}]{1,100} <([^<>]+)>|([^<>]+))$/u.exec(text.trim());
  const plain = address?.[1] ?? address?.[2] ?? '';
  return /^[^\s@,;:"<>]{1,64}@[A-Za-z0-9.-]{1,253}$/.test(plain) ? text.trim() : null;
}

/** `name=key`, a public key of an elliptic curve as base64 of its DER form. */
export function appleKeyOf(text: string): string | null {
  const [, key] = /^[\w./-]{1,100}=([\w+/]{1,400}={0,2})$/.exec(text) ?? [];
  if (key === undefined) return null;
  try {
    const { asymmetricKeyType } = createPublicKey({ key: Buffer.from(key, 'base64'), format: 'der', type: 'spki' });
    return asymmetricKeyType === 'ec' ? text : null;
  } catch {
    return null;
  }
}

/** Why a valid URL is refused nevertheless; undefined if it is not. */
type UrlRule = (value: string) => string | undefined;

export const nothingRefused: UrlRule = () => undefined;

/** Why a URL that other tools accept for Redis is refused: there must be one primary, over TCP. */
export function redisRefusal(value: string): string | undefined {
  if (/sentinel|cluster/i.test(value.split('://')[0] ?? '') || value.includes(','))
    return 'must be the URL of one primary: Sentinel and Cluster are not supported. Use an address that follows the primary, such as a proxy or a managed endpoint';
  if (/^(\/|unix:|(redis\+)?(unix|socket):)/i.test(value))
    return 'must be a URL with redis or rediss://: a Unix socket is not supported, use a port on 127.0.0.1';
  return undefined;
}
