/**
 * Firebase long links on an app's own host: `https://host[/prefix]/?link=…&apn=…`. Recognizes such requests and the
 * link that each stands for: the same parameters identify the same link, in any order and encoding.
 */

import { createHash } from 'node:crypto';
import { UTM_FIELDS, type UtmField, utmFrom } from '#common/campaign-fields.ts';
import { firstCharacters } from '#common/first-characters.ts';
import { pairName } from '#common/query-pair.ts';
import { firebaseAppIds, firebaseTargets, keptFirebaseFields } from './firebase-link.ts';
import type { LinkedApp, LinkSnapshot } from './link-snapshot.ts';
import { urlFault } from './web-address.ts';

export const longLinkRefusals = ['no_link', 'bad_url', 'foreign_host', 'foreign_app'] as const;

/** Why a long link is not followed. */
export interface RefusedLongLink {
  readonly reason: (typeof longLinkRefusals)[number];
  /** The parameter, host or app that caused the problem. */
  readonly detail: string;
}

/** The columns of the link. */
export type LongLinkFields = Readonly<Record<UtmField, string | null>> &
  Pick<
    LinkSnapshot,
    'ios_url' | 'android_url' | 'fallback_url' | 'og_title' | 'og_description' | 'og_image_url' | 'tap_page'
  > & { readonly path: string; readonly data: { readonly firebase: Readonly<Record<string, string>> } };

export interface LongLink {
  readonly code: string;
  readonly fields: LongLinkFields;
  /** Other query parameters of the visit. */
  readonly query: string;
  /** The destination on iPads that identify themselves; null: as on iPhones. */
  readonly ipad_url: string | null;
}

const urlFields = ['link', 'afl', 'ifl', 'ipfl', 'ofl'] as const;
const textMax: Readonly<Record<string, number>> = { st: 300, sd: 1000, si: 2048 };
const TEXT_CHARACTERS_MAX = 255;
const PATH_CHARACTERS_MAX = 2048;

/** Everything that identifies the link, in a fixed order. */
const linkParameters = [
  ...urlFields,
  ...firebaseAppIds.map(([name]) => name),
  ...keptFirebaseFields.filter((name) => name !== 'ipfl'),
  ...['efr', 'st', 'sd', 'si'],
  ...UTM_FIELDS,
];
/**
 * `d=1` asked Firebase for a page that explains the link. `gclid` is not a parameter of the link, because each ad click
 * has its own.
 */
const ownParameters: ReadonlySet<string> = new Set([...linkParameters, 'd']);

/** Whether a request that matches no link of the host is a long link. Costs one comparison if it has no query. */
export function isLongLink({ firebase_links: setting }: LinkedApp, path: string, query: string): boolean {
  if (query === '' || setting === null || !/(?:^|&)link=/.test(query)) return false;
  return path === '/' || setting.prefixes.includes(path.endsWith('/') ? path.slice(0, -1) : path);
}

export function readLongLink(app: LinkedApp, query: string): LongLink | RefusedLongLink {
  const given = new URLSearchParams(query);
  const texts = new Map<string, string>();
  for (const name of linkParameters) texts.set(name, textOf(name, given.get(name) ?? ''));
  const text = (name: string) => texts.get(name) ?? '';
  for (const name of urlFields) {
    const refused = urlRefusal(app, name, text(name));
    if (refused !== null) return refused;
  }
  for (const [name, own] of firebaseAppIds) {
    const known = own === 'package_name' ? app.android?.package_name : app.ios?.[own];
    if (text(name) !== '' && text(name) !== known) return { reason: 'foreign_app', detail: `${name} ${text(name)}` };
  }
  // The same link in a different encoding has the same name.
  for (const name of urlFields) if (text(name) !== '') texts.set(name, new URL(text(name)).href);
  const named = linkParameters.flatMap((name) => (text(name) === '' ? [] : [[name, text(name)]]));
  const hash = createHash('sha256').update(JSON.stringify(named)).digest('hex');
  return {
    code: `fdl~${hash.slice(0, 32)}`,
    fields: fieldsOf(text),
    query: query
      .split('&')
      .filter((pair) => !ownParameters.has(pairName(pair)))
      .join('&'),
    ipad_url: text('ipfl') === '' ? null : secure(text('ipfl')),
  };
}

/** Removes control characters, which no column accepts, and limits the length to that of the column. */
function textOf(name: string, given: string): string {
  const text = given.replace(/\p{Cc}/gu, ' ').trim();
  const isUrl = urlFields.some((one) => one === name);
  return isUrl ? text : firstCharacters(text, textMax[name] ?? TEXT_CHARACTERS_MAX);
}

/** Firebase allowed http; links here must use https. */
function secure(url: string): string {
  return url.replace(/^http:/i, 'https:');
}

function urlRefusal({ firebase_links }: LinkedApp, name: string, text: string): RefusedLongLink | null {
  if (text === '') return name === 'link' ? { reason: 'no_link', detail: name } : null;
  if (urlFault(secure(text)) !== null) return { reason: 'bad_url', detail: name };
  const { hostname } = new URL(secure(text));
  return firebase_links?.hosts.includes(hostname) ? null : { reason: 'foreign_host', detail: hostname };
}

function fieldsOf(text: (name: string) => string): LongLinkFields {
  const link = secure(text('link'));
  const { pathname, search } = new URL(link);
  const kept = ['link', ...keptFirebaseFields].flatMap((name) => (text(name) === '' ? [] : [[name, text(name)]]));
  const { ios_url, android_url, fallback_url, tap_page } = firebaseTargets(text, link);
  const image = text('si');
  return {
    path: pathname.length + search.length <= PATH_CHARACTERS_MAX ? pathname + search : '/',
    ios_url: ios_url === '' ? null : secure(ios_url),
    android_url: android_url === '' ? null : secure(android_url),
    fallback_url: secure(fallback_url),
    tap_page,
    og_title: text('st') || null,
    og_description: text('sd') || null,
    og_image_url: image !== '' && urlFault(image) === null ? image : null,
    data: { firebase: Object.fromEntries(kept) },
    ...utmFrom((name) => text(name) || null),
  };
}

/** The link as a redirect needs it, before it is stored. */
export function snapshotOfLongLink(app: LinkedApp, { code, fields }: LongLink): LinkSnapshot {
  const { path: _, data: __, ...columns } = fields;
  return {
    id: '',
    app_id: app.id,
    short_code: code,
    campaign: null,
    archived: false,
    title: null,
    expires_at: null,
    expired_url: null,
    rules: null,
    password_hash: null,
    max_clicks: null,
    ...columns,
  };
}

const refusedPrefix = '?';
const DETAIL_CHARACTERS_MAX = 150;

/** The name under which visits to a rejected link are counted. No code starts with a question mark. */
export function refusedVisitName({ reason, detail }: RefusedLongLink): string {
  return `${refusedPrefix}${reason} ${firstCharacters(detail, DETAIL_CHARACTERS_MAX)}`;
}

/** Undefined if the name is a code. */
export function refusedOfVisitName(name: string): RefusedLongLink | undefined {
  if (!name.startsWith(refusedPrefix)) return undefined;
  const [reason = '', ...detail] = name.slice(refusedPrefix.length).split(' ');
  const known = longLinkRefusals.find((one) => one === reason);
  return known && { reason: known, detail: detail.join(' ') };
}
