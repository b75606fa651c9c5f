/**
 * Asks an app's old service about one code. The tenant chooses the server, so the request is checked and bounded like
 * every outbound request (common/outbound-request.ts). Redirects are not followed: the Location of the first one is the
 * destination.
 */

import { randomBytes } from 'node:crypto';
import { firstCharacters } from '#common/first-characters.ts';
import type { Resolve } from '#common/host-addresses.ts';
import { askingAgent } from '#common/links/link-asks.ts';
import { addressOfCode, type MigrationSettings } from '#common/links/migration-settings.ts';
import { urlFault } from '#common/links/web-address.ts';
import { type OutboundFailure, outboundFailures, outboundRequest } from '#common/outbound-request.ts';
import type { ReachableAddresses } from '#common/reachable-addresses.ts';

/** Why a code was not learned. */
export const unlearnedReasons = [
  'unknown',
  'page',
  'refused',
  'no_location',
  'bad_destination',
  'foreign_host',
  'own_host',
  'deleted',
  'limit',
  ...outboundFailures,
] as const;
export type UnlearnedReason = (typeof unlearnedReasons)[number];

/** A retry in a minute may succeed. */
const passing: ReadonlySet<UnlearnedReason> = new Set(['refused', 'limit', ...outboundFailures]);

export function isTemporary(reason: UnlearnedReason): boolean {
  return passing.has(reason);
}

export interface Unlearned {
  readonly kind: 'unlearned';
  readonly reason: UnlearnedReason;
  readonly detail: string | null;
}

export type OldServiceAnswer = { readonly kind: 'destination'; readonly url: string } | Unlearned;

export interface OldServiceRules {
  readonly resolve: Resolve;
  readonly reachable: ReachableAddresses;
  readonly timeLimitMs: number;
  /** For tests: like WEBHOOK_HTTP. */
  readonly allowsHttp: boolean;
}

const DETAIL_CHARACTERS_MAX = 253;
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

export function unlearned(reason: UnlearnedReason, detail: string | null = null): Unlearned {
  return { kind: 'unlearned', reason, detail: detail === null ? null : firstCharacters(detail, DETAIL_CHARACTERS_MAX) };
}

/** A random code that no service has. */
export function madeUpCode(): string {
  return `x${randomBytes(12).toString('hex')}`;
}

type Redirect = { readonly kind: 'location'; readonly url: URL } | Unlearned;

/** Where the service redirects a visitor of the code. Never rejects. */
export async function askOldService(
  setting: MigrationSettings,
  code: string,
  { resolve, reachable, timeLimitMs, allowsHttp }: OldServiceRules,
): Promise<Redirect> {
  const url = addressOfCode(setting.url, code);
  if (!url.startsWith('https:') && !allowsHttp) return unlearned('refused', 'http');
  const { via } = setting;
  const outcome = await outboundRequest(
    { method: 'GET', url, headers: { 'user-agent': askingAgent, accept: 'text/html,*/*;q=0.8' }, answerBytesMax: 0 },
    { resolve: via === null ? resolve : () => resolve(via), reachable, timeLimitMs },
  );
  if (outcome.kind === 'aborted') throw new Error('a request without a signal was aborted');
  if (outcome.kind === 'failed') return unlearned(outcome.reason satisfies OutboundFailure);
  const { status, headers } = outcome;
  if (status === 404 || status === 410) return unlearned('unknown', String(status));
  if (status >= 200 && status < 300) return unlearned('page', String(status));
  if (!redirects.has(status)) return unlearned('refused', String(status));
  const { location } = headers;
  if (location === undefined || location === '') return unlearned('no_location', String(status));
  return URL.canParse(location, url)
    ? { kind: 'location', url: new URL(location, url) }
    : unlearned('bad_destination', location);
}

/** The destination of a learned link, according to the app's setting. @param ownHost the app's host. */
export function destinationOf(url: URL, setting: MigrationSettings, ownHost: string): OldServiceAnswer {
  const { hostname } = url;
  if (hostname === ownHost) return unlearned('own_host', ownHost);
  if (!setting.destination_hosts.includes(hostname)) return unlearned('foreign_host', hostname);
  const { href } = url;
  const destination = setting.upgrade_http ? href.replace(/^http:/, 'https:') : href;
  const fault = urlFault(destination);
  return fault === null ? { kind: 'destination', url: destination } : unlearned('bad_destination', fault);
}
