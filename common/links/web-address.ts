/** Addresses that users give: web addresses that links lead to, and hosts that links live on. */
import { domainToASCII } from 'node:url';
import ipaddr from 'ipaddr.js';
import type { FieldError } from '#common/http/rejection.ts';

export const URL_CHARACTERS_MAX = 2048;
const HOST_CHARACTERS_MAX = 253;
/** The URL parser drops these in silence (WHATWG URL, "tab or newline" and leading spaces), so they are refused before. */
const unprintable = /[\s\p{Cc}]/u;

/** Null when the text is an https address that leads to a host; otherwise what is wrong with it. */
export function urlFault(text: string): string | null {
  if (text.length > URL_CHARACTERS_MAX) return `must have at most ${URL_CHARACTERS_MAX} characters`;
  if (unprintable.test(text) || text.includes('\\')) return 'must not hold spaces, control characters or backslashes';
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url) return 'must be an absolute https URL';
  if (url.protocol !== 'https:') return 'must be an https URL; other schemes are not allowed';
  if (!/^https:\/\/[^/]/i.test(text)) return 'must be an https URL with a host';
  if (url.username !== '' || url.password !== '') return 'must not hold a user name or password';
  return null;
}

/** Faults of several address fields; those that are absent or null have none. */
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

/** Where a host would end, or be something else than it looks, to the URL parser. */
const notInHost = /[\s\p{Cc}/?#@:%\\[\]]/u;
const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/**
 * A host name as it is kept: lower case, international names in their ASCII form (UTS 46), no scheme, no port, at
 * least two labels, no IP address. Null when the text is none.
 */
export function hostOf(text: string): string | null {
  const given = text.trim();
  const host = notInHost.test(given) ? '' : domainToASCII(given.toLowerCase());
  if (host === '' || host.length > HOST_CHARACTERS_MAX || ipaddr.isValid(host)) return null;
  const labels = host.split('.');
  return labels.length >= 2 && labels.every((one) => label.test(one)) && !/^\d+$/.test(labels.at(-1) ?? '')
    ? host
    : null;
}
