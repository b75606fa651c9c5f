/**
 * The destination of a visit. Rules, in this order:
 *
 *   iOS      link.ios_url, else the App Store page, else as others
 *   Android  link.android_url, else the Play page with the click id in its referrer, else as others
 *   others   link.fallback_url, else app.fallback_url, else nowhere
 *
 * A web destination gets the visitor's query parameters and the link's utm fields. Both queries stay byte for byte, except that of a
 * parameter in both only one stays: the destination's own, or of utm_… (with `query_merge` visit: of any) the visitor's. The link's utm fields fill in missing ones.
 * A store page gets neither, except Play, whose referrer carries the click id and the utm fields to the installed app.
 * A destination is never taken from the query; that of a Firebase long link is of the link it stands for, on a host that the app allows
 * (common/links/long-link.ts). The result is written by the URL parser, so it is ASCII
 * without control characters.
 */
import { UTM_FIELDS, type UtmTexts, utmFrom } from '#common/campaign-fields.ts';
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import { pairName } from '#common/query-pair.ts';
import { redirectHead } from './answer-headers.ts';
import type { Platform } from './device.ts';

/**
 * Computed once per link, platform and change; `locationOf` fills in what differs between visitors. `redirect` is the
 * head of the answer whose Location is `href`, for all visitors without a query.
 */
export type Destination =
  | {
      readonly kind: 'web';
      readonly href: string;
      readonly redirect: string;
      readonly host: string;
      readonly url: string;
      readonly utm: UtmTexts;
      /** Whether the visit's parameters replace all of the destination's with the same names. */
      readonly visitWins: boolean;
    }
  | {
      readonly kind: 'play';
      readonly packageName: string;
      readonly before: string;
      readonly after: string;
      readonly utm: UtmTexts;
    }
  | { readonly kind: 'page'; readonly href: string; readonly redirect: string };

/** How many hosts of this installation redirected a visit before (redirector/hops.ts). */
export const HOPS_PARAMETER = 'signpost_hop';

/** Parameters that a destination cannot fix. */
const isOfVisit = (name: string) => name.startsWith('utm_') || name === HOPS_PARAMETER;

export function utmOf(link: LinkSnapshot): UtmTexts {
  return utmFrom((name) => link[name] ?? '');
}

/**
 * The link's fields, overridden by those of the visitor's query, without NUL: a record with one would not become a
 * click.
 */
export function effectiveUtm(own: UtmTexts, query: string): UtmTexts {
  if (!query.includes('utm_')) return own;
  const given = new URLSearchParams(query);
  return utmFrom((name) => given.get(name)?.replaceAll('\0', '') ?? own[name]);
}

/** The field of a link or an app that decides where a visit leads. */
export type DestinationRule =
  | 'link.ios_url'
  | 'app.ios.app_store_id'
  | 'link.android_url'
  | 'app.android.package_name'
  | 'link.fallback_url'
  | 'app.fallback_url';

export interface RuledDestination {
  readonly rule: DestinationRule;
  readonly destination: Destination;
}

export function destinationOf(link: LinkSnapshot, app: LinkedApp, platform: Platform): RuledDestination | null {
  const utm = utmOf(link);
  switch (platform) {
    case 'ios':
      return (
        by('link.ios_url', webDestination(link.ios_url, utm, app)) ??
        by('app.ios.app_store_id', appStorePage(app)) ??
        destinationOf(link, app, 'other')
      );
    case 'android':
      return (
        by('link.android_url', webDestination(link.android_url, utm, app)) ??
        by('app.android.package_name', playPage(app, utm)) ??
        destinationOf(link, app, 'other')
      );
    case 'other':
      return (
        by('link.fallback_url', webDestination(link.fallback_url, utm, app)) ??
        by('app.fallback_url', webDestination(app.fallback_url, utm, app))
      );
  }
}

function by(rule: DestinationRule, destination: Destination | null): RuledDestination | null {
  return destination === null ? null : { rule, destination };
}

/** The destination of an expired link: its expired_url only. */
export function expiredDestinationOf(link: LinkSnapshot, app: LinkedApp): Destination | null {
  return webDestination(link.expired_url, utmOf(link), app);
}

/** The Location of one visit. @param clickId empty if no click is recorded; the Play referrer then has none. */
export function locationOf(destination: Destination, query: string, clickId: string): string {
  switch (destination.kind) {
    case 'page':
      return destination.href;
    case 'web':
      return query === '' ? destination.href : withQuery(destination, query);
    case 'play': {
      if (clickId !== '' && !query.includes('utm_')) return destination.before + clickId + destination.after;
      return playUrl(destination.packageName, clickId, effectiveUtm(destination.utm, query));
    }
  }
}

/** `locationOf` in the form that `sendRedirect` takes. */
export function redirectOf(destination: Destination, query: string, clickId: string): string {
  if (destination.kind === 'page' || (destination.kind === 'web' && query === '')) return destination.redirect;
  return redirectHead + locationOf(destination, query, clickId);
}

/** Null unless the text is an https URL. `href` has the utm fields, `url` does not. */
export function webDestination(
  given: string | null,
  utm: UtmTexts,
  { query_merge }: Pick<LinkedApp, 'query_merge'>,
): Destination | null {
  if (given === null) return null;
  const text = given.trim();
  const url = parsedWebUrl(text.includes('utm_') ? text : withUtm(text, utm));
  if (url === null) return null;
  if (text.includes('utm_')) append(url, missing(utm, new Set(url.searchParams.keys())));
  const { href, hostname } = url;
  return {
    kind: 'web',
    href,
    redirect: redirectHead + href,
    host: hostname,
    url: text,
    utm,
    visitWins: query_merge === 'visit',
  };
}

function parsedWebUrl(text: string): URL | null {
  try {
    const url = new URL(text);
    return url.protocol === 'https:' ? url : null;
  } catch {
    return null;
  }
}

/** As `searchParams` writes a value, but without creating one for the plain words that most values are. */
function formEncoded(value: string): string {
  return /^[\w.*-]*$/.test(value) ? value : new URLSearchParams({ v: value }).toString().slice(2);
}

/** The text with the fields at the end of its query, not yet parsed: half the cost of `searchParams`. */
function withUtm(text: string, utm: UtmTexts): string {
  let added = '';
  for (const name of UTM_FIELDS) if (utm[name] !== '') added += `&${name}=${formEncoded(utm[name])}`;
  if (added === '') return text;
  const hash = text.indexOf('#');
  const page = hash === -1 ? text : text.slice(0, hash);
  const mark = page.indexOf('?');
  const query = mark === -1 ? `?${added.slice(1)}` : mark === page.length - 1 ? added.slice(1) : added;
  return page + query + (hash === -1 ? '' : text.slice(hash));
}

/** Pairs stay as the author and the visitor wrote them; the URL parser escapes only what a header cannot contain. */
function withQuery({ url: text, utm, visitWins }: Extract<Destination, { kind: 'web' }>, query: string): string {
  const url = new URL(text);
  const own = pairsOf(url.search.slice(1));
  const given = pairsOf(query);
  const names = given.map(pairName);
  const ownNames = own.map(pairName);
  const ownWins = new Set(visitWins ? [] : ownNames.filter((name) => name !== '' && !isOfVisit(name)));
  const kept = own.filter((_, at) => {
    const name = ownNames[at] ?? '';
    return name === '' || !(visitWins || isOfVisit(name)) || !names.includes(name);
  });
  const added = given.filter((_, at) => !ownWins.has(names[at] ?? ''));
  if (kept.length < own.length || added.length > 0)
    setQuery(url, [...kept, ...added, ...missing(utm, new Set([...ownNames, ...names]))]);
  else append(url, missing(utm, new Set(ownNames)));
  return url.href;
}

function pairsOf(query: string): string[] {
  return query === '' ? [] : query.split('&');
}

/** The fields that a query lacks, as pairs. */
function missing(utm: UtmTexts, names: ReadonlySet<string>): string[] {
  return UTM_FIELDS.filter((name) => utm[name] !== '' && !names.has(name)).map((name) => pairOf(name, utm[name]));
}

function pairOf(name: string, value: string): string {
  return `${formEncoded(name)}=${formEncoded(value)}`;
}

/** Appended to the author's text, which stays byte for byte: it may be signed, or use another encoding. */
function append(url: URL, pairs: readonly string[]): void {
  if (pairs.length > 0) setQuery(url, [...pairsOf(url.search.slice(1)), ...pairs]);
}

/** With a question mark, because the setter drops one that the first pair begins with. */
function setQuery(url: URL, pairs: readonly string[]): void {
  url.search = `?${pairs.join('&')}`;
}

/** `apps.apple.com/app/id…` leads to the visitor's own country (Apple, "Linking to the App Store"). */
function appStorePage(app: LinkedApp): Destination | null {
  const id = /^(?:id)?(\d{1,19})$/.exec(app.ios?.app_store_id ?? '')?.[1];
  if (id === undefined) return null;
  const href = `https://apps.apple.com/app/id${id}`;
  return { kind: 'page', href, redirect: redirectHead + href };
}

const clickIdPlaceholder = 'clk_placeholder';

function playPage(app: LinkedApp, utm: UtmTexts): Destination | null {
  const packageName = app.android?.package_name ?? '';
  // Android, "Configure the app module": letters, digits and underscores in dotted segments.
  if (!/^[A-Za-z]\w*(?:\.[A-Za-z]\w*)+$/.test(packageName)) return null;
  const [before = '', after = ''] = playUrl(packageName, clickIdPlaceholder, utm).split(clickIdPlaceholder);
  return { kind: 'play', packageName, before, after, utm };
}

/** The referrer is a query string inside a query string (Android, "Play Install Referrer"), so it is encoded twice. */
function playUrl(packageName: string, clickId: string, utm: UtmTexts): string {
  const referrer: string[] = clickId === '' ? [] : [`click_id=${clickId}`];
  for (const name of UTM_FIELDS)
    if (utm[name] !== '') referrer.push(`${name}=${encodeURIComponent(utm[name].toWellFormed())}`);
  const page = `https://play.google.com/store/apps/details?id=${packageName}`;
  return new URL(referrer.length === 0 ? page : `${page}&referrer=${encodeURIComponent(referrer.join('&'))}`).href;
}
