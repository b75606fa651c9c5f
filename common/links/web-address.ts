/** Addresses that users enter: URLs as destinations of links, and hosts for links. */
import { domainToASCII, domainToUnicode } from 'node:url';
import ipaddr from 'ipaddr.js';
import type { FieldError } from '#common/http/rejection.ts';
import { hasGlyph } from '#common/visible-text.ts';

export const URL_CHARACTERS_MAX = 8_192;
const HOST_CHARACTERS_MAX = 253;
/**
 * The URL parser silently removes these (WHATWG URL, "tab or newline" and leading spaces), so they are rejected first.
 */
const unprintable = /[\s\p{Cc}]/u;

/** Null if the text is an https URL with a host; otherwise what is wrong with it. */
export function urlFault(text: string, charactersMax = URL_CHARACTERS_MAX): string | null {
  if (text.length > charactersMax) return `must have at most ${charactersMax} characters`;
  if (unprintable.test(text) || text.includes('\\'))
    return 'must not contain spaces, control characters or backslashes';
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url) return 'must be an absolute https URL';
  if (url.protocol !== 'https:') return 'must be an https URL; other schemes are not allowed';
  if (!/^https:\/\/[^/]/i.test(text)) return 'must be an https URL with a host';
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or password';
  // A redirect sends it in this form, and proxies refuse an answer whose header is too long.
  return url.href.length > charactersMax
    ? `is longer than ${charactersMax.toLocaleString('en-US')} characters once encoded`
    : null;
}

/** Errors of several URL fields; absent or null fields have none. */
export function urlFaults<Name extends string>(
  fields: { readonly [K in Name]?: unknown },
  names: readonly Name[],
): FieldError[] {
  return names.flatMap((field) => {
    const value: unknown = fields[field];
    const message = typeof value === 'string' ? urlFault(value) : null;
    return message === null ? [] : [{ field, message }];
  });
}

/** Characters at which the URL parser would end a host or change its meaning. */
const notInHost = /[\s\p{Cc}/?#@:%\\[\]]/u;
const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/**
 * A host name in its stored form: lower case, international names in their ASCII form (UTS 46), no scheme, no port, at
 * least two labels, no IP address, no label without a visible character.
 * Null if the text is not one.
 */
export function hostOf(text: string): string | null {
  const given = text.trim();
  const host = notInHost.test(given) ? '' : domainToASCII(given.toLowerCase());
  if (host === '' || host.length > HOST_CHARACTERS_MAX || ipaddr.isValid(host)) return null;
  const labels = host.split('.');
  if (labels.some((one) => one.startsWith('xn--') && !hasGlyph(domainToUnicode(one)))) return null;
  return labels.length >= 2 && labels.every((one) => label.test(one)) && !/^\d+$/.test(labels.at(-1) ?? '')
    ? host
    : null;
}
