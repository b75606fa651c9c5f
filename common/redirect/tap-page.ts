/**
 * The tap page of a link on one platform: title, picture, one button to the store. The link's part is computed once;
 * the click, the visitor's language and browser are filled in for each visit. Every text is escaped, and whatever would
 * make the page larger than PAGE_BYTES_MAX is truncated or left out.
 */
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import { pathOfCode } from '#common/links/short-code.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import { cut } from '#common/log/record.ts';
import { type Destination, locationOf } from './destination.ts';
import { escapeHtml } from './page.ts';
import { tapPolicy, tapScript, tapStyle } from './tap-page-assets.ts';
import { tapTextsFor } from './tap-page-texts.ts';

/** With its headers, the answer stays within 6 KiB. A larger page is not shown. */
export const PAGE_BYTES_MAX = 5_504;
const TITLE_CHARS_MAX = 80;
const DESCRIPTION_CHARS_MAX = 160;
const IMAGE_URL_CHARS_MAX = 512;

type Store = 'app_store' | 'play';

const storeHosts: ReadonlyMap<string, Store> = new Map([
  ['apps.apple.com', 'app_store'],
  ['itunes.apple.com', 'app_store'],
  ['play.google.com', 'play'],
]);

/** Which store a destination is; null for any other address. */
function storeOf(destination: Destination): Store | null {
  if (destination.kind === 'play') return 'play';
  return storeHosts.get(new URL(destination.href).host) ?? null;
}

/** One visit of the page. */
export interface TapVisit {
  readonly clickId: string;
  readonly query: string;
  readonly user_agent: string;
  /** The Accept-Language header. */
  readonly language: string;
  /** Proves that the page's click is genuine; empty if its signals are not wanted. */
  readonly token: string;
  readonly shortUrl: ShortUrl;
}

export class TapPage {
  /** The Content-Security-Policy. */
  readonly policy: string;
  readonly #destination: Destination;
  readonly #store: Store;
  readonly #host: string;
  readonly #shortCode: string;
  readonly #packageName: string;
  /** Escaped; empty if the link has none. */
  readonly #title: string;
  readonly #description: string;
  readonly #picture: string;

  /** Null if no tap page is wanted, or the destination is not a store. */
  static of(link: LinkSnapshot, app: LinkedApp, platform: 'ios' | 'android', destination: Destination): TapPage | null {
    const mode = link.tap_page ?? app.tap_page;
    if (mode === 'off' || (mode === 'ios' && platform !== 'ios')) return null;
    const store = storeOf(destination);
    return store === null ? null : new TapPage(link, app, destination, store);
  }

  private constructor(link: LinkSnapshot, app: LinkedApp, destination: Destination, store: Store) {
    this.#destination = destination;
    this.#store = store;
    this.#host = app.host;
    this.#shortCode = link.short_code;
    this.#packageName = destination.kind === 'play' ? destination.packageName : '';
    this.#title = escapeHtml(shortened(link.og_title, TITLE_CHARS_MAX));
    this.#description = escapeHtml(shortened(link.og_description, DESCRIPTION_CHARS_MAX));
    const image = imageOf(link.og_image_url);
    this.policy = tapPolicy(image?.origin ?? '');
    this.#picture = image
      ? `<img class="p" src="${escapeHtml(image.href)}" alt="" referrerpolicy="no-referrer">`
      : `<div class="m" aria-hidden="true">${initialOf(link.og_title ?? app.host)}</div>`;
  }

  /** Null if the page would be too large even without its description and picture: it contains the visitor's query. */
  html(visit: TapVisit): string | null {
    for (const [description, picture] of [
      [this.#description, this.#picture],
      ['', this.#picture],
      ['', ''],
    ] as const) {
      const html = this.#html(visit, description, picture);
      if (Buffer.byteLength(html) <= PAGE_BYTES_MAX) return html;
    }
    return null;
  }

  #html(
    { clickId, query, user_agent, language, token, shortUrl }: TapVisit,
    description: string,
    picture: string,
  ): string {
    const texts = tapTextsFor(language);
    const href = this.#href(locationOf(this.#destination, query, clickId), query, user_agent);
    const isCopied = this.#store === 'app_store';
    const copied = `${shortUrl(this.#host, this.#shortCode)}?click_id=${clickId}`;
    const copy = isCopied ? ` data-c="${escapeHtml(copied)}"` : '';
    const signals = token === '' ? '' : ` data-t="${token}"`;
    const title = this.#title || texts.heading;
    const note = texts.opens[this.#store] + (isCopied ? ` ${texts.copies}` : '');
    return (
      `<!doctype html><html lang="${texts.lang}" dir="${texts.dir}"><head><meta charset="utf-8">` +
      '<meta name="viewport" content="width=device-width,initial-scale=1,viewport-fit=cover">' +
      `<meta name="robots" content="noindex"><title>${title}</title><style>${tapStyle}</style></head>` +
      `<body><main><article>${picture}<div class="w"><h1 dir="auto">${title}</h1>` +
      (description === '' ? '' : `<p class="d" dir="auto">${description}</p>`) +
      (opensNoStore.test(user_agent) ? `<p class="h">${texts.hint}</p>` : '') +
      `<a class="a" href="${escapeHtml(href)}"${signals}${copy}>${texts.button}</a><p class="n">${note}</p></div></article>` +
      `<p class="f" dir="ltr">${this.#host}</p></main><script>${tapScript}</script></body></html>\n`
    );
  }

  /**
   * On Android an intent if the browser is known to follow one: it opens the app if it is installed, else the store.
   */
  #href(location: string, query: string, userAgent: string): string {
    if (this.#packageName === '' || !followsIntents(userAgent)) return location;
    // The last # of an intent ends its address.
    const passedOn = query === '' || !/^[\x21-\x7e]+$/.test(query) || query.includes('#') ? '' : `?${query}`;
    return (
      `intent://${this.#host}${pathOfCode(this.#shortCode)}${passedOn}#Intent;scheme=https;package=${this.#packageName};` +
      `S.browser_fallback_url=${encodeURIComponent(location)};end`
    );
  }
}

function shortened(text: string | null, max: number): string {
  const line = (text ?? '').replace(/\s+/g, ' ').trim();
  return line.length <= max ? line : `${cut(line, max - 1).trimEnd()}…`;
}

function imageOf(address: string | null): URL | null {
  if (address === null || !URL.canParse(address)) return null;
  const url = new URL(address);
  const isFit = url.protocol === 'https:' && url.username === '' && url.href.length <= IMAGE_URL_CHARS_MAX;
  return isFit && /^https:\/\/[a-z0-9.-]+(?::\d+)?$/.test(url.origin) ? url : null;
}

const graphemes = new Intl.Segmenter();

function initialOf(text: string): string {
  const [first] = graphemes.segment(text.trim());
  return escapeHtml(cut(first?.segment.toUpperCase() ?? '', 16));
}

/**
 * Chrome and browsers based on it follow `intent:` links with their fallback, and pass on the referrer of a Play page
 * (developer.chrome.com/docs/android/intents); Firefox does since 2020. Web views of apps follow them or end on an
 * error page, so they get the address of the store, as without a tap page.
 */
const intentBrowser =
  /^Mozilla\/5\.0 \(Linux; Android [^)]*\) AppleWebKit\/[\d.]+ \(KHTML, like Gecko\) (?:SamsungBrowser\/[\d.]+ )?Chrome\/[\d.]+(?: Mobile)? Safari\/[\d.]+(?: (?:EdgA|OPR)\/[\d.]+)?$|^Mozilla\/5\.0 \(Android [^)]*\) Gecko\/[\d.]+ Firefox\/[\d.]+$/;

function followsIntents(userAgent: string): boolean {
  return intentBrowser.test(userAgent) && !/; wv\)/.test(userAgent);
}

/** Apps that block stores in their browsers and have a menu to leave them: WeChat, QQ, Weibo, DingTalk, Alipay. */
const opensNoStore = /MicroMessenger\/|\bQQ\/\d|\bWeibo\b|DingTalk\/|AlipayClient\//i;
