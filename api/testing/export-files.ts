/** Generates files of any length as other services export them. Each row is a distinct link. */
import type { ImportSource } from '#api/imports/import-columns.ts';

/** A link in a format-independent form. */
export interface ExportedLink {
  readonly code: string;
  readonly destination: string;
  readonly title: string;
  readonly created: Date;
  readonly clicks: number;
  /** Maximum clicks; null: no limit. */
  readonly clicksMax: number | null;
  readonly isArchived: boolean;
  readonly tags: readonly string[];
}

const firstMs = Date.UTC(2021, 4, 6, 7, 8, 9);

export function exportedLink(n: number): ExportedLink {
  return {
    code: n % 10 === 0 ? `promo/été-${n}` : `Code.${n}`,
    destination: `https://www.example.com/products/${n}?ref=a&b=${encodeURIComponent('ü, "x"')}`,
    title: `Product "${n}", übersicht; new`,
    created: new Date(firstMs + n * 1_000),
    clicks: n * 3,
    // Some have clicks left, and some are used up.
    clicksMax: n % 5 === 0 ? n * 3 + 15 : n % 11 === 0 ? n * 3 : null,
    isArchived: n % 7 === 0,
    tags: n % 5 === 0 ? ['sale', 'été'] : [],
  };
}

type Writer = (link: ExportedLink, host: string) => readonly (string | number | boolean)[];

interface Export {
  readonly header: readonly string[];
  readonly row: Writer;
  readonly separator?: string;
}

const iso = (date: Date) => date.toISOString();
const seconds = (date: Date) => Math.floor(date.getTime() / 1000);
const plainTime = (date: Date) => iso(date).slice(0, 19).replace('T', ' ');
const short = ({ code }: ExportedLink, host: string) => `${host}/${code.split('/').map(encodeURIComponent).join('/')}`;

/** Documented as field names, not as a header: support/guides/export-dynamic-links of Firebase. */
const firebaseHeader = [
  ...['Short link', 'Deep link (link)', 'Android package name (apn)', 'Android fallback link (afl)'],
  ...['Android minimum package version code (amv)', 'iOS bundle ID (ibi)', 'iOS fallback link (ifl)'],
  ...[
    'iOS custom scheme (ius)',
    'iOS iPad fallback link (ipfl)',
    'iOS iPad bundle ID (ipbi)',
    'iOS app store ID (isi)',
  ],
  ...['iOS minimum version (imv)', 'Enable forced redirect? (efr)', 'Desktop fallback link (ofl)'],
  ...['Social title (st)', 'Social description (sd)', 'Social image link (si)', 'UTM source (utm_source)'],
  ...['UTM medium (utm_medium)', 'UTM campaign (utm_campaign)', 'UTM term (utm_term)', 'UTM content (utm_content)'],
  ...['iTunes Connect at', 'iTunes Connect ct', 'iTunes Connect mt', 'iTunes Connect pt', 'Archived?', 'Link name'],
  'Creation timestamp',
];

const blank = (count: number) => Array.from({ length: count }, () => '');

export const exportFormats: Readonly<Record<ImportSource, Export>> = {
  firebase: {
    header: firebaseHeader,
    row: (link, host) => [
      ...[
        `https://${short(link, host)}`,
        link.destination,
        'com.example.shop',
        '',
        '12',
        'com.example.shop',
        '',
        'shop',
      ],
      ...['', '', '123456789', '2.1', 'TRUE', `${link.destination}&desktop=1`, link.title, 'Social', ''],
      ...['mail', 'email', 'spring', '', '', ...blank(4), link.isArchived, link.title, iso(link.created)],
    ],
  },
  branch: {
    header: [
      ...['url', 'alias', '~campaign', '~channel', '~feature', '~tags', '$marketing_title', '$desktop_url'],
      ...['$deeplink_path', '~creation_date', 'product_id', 'clicks'],
    ],
    row: (link, host) => [
      ...[`https://${short(link, host)}`, link.code, 'spring', 'mail', 'email', JSON.stringify(link.tags), link.title],
      ...[link.destination, `products/${link.clicks}`, link.created.getTime(), String(link.clicks), link.clicks],
    ],
  },
  bitly: {
    header: ['created_at', 'link', 'long_url', 'title', 'archived', 'tags', 'custom_bitlinks', 'clicks'],
    row: (link, host) => [
      ...[iso(link.created).replace(/\.\d+Z/, '+0000'), `https://${short(link, host)}`, link.destination, link.title],
      ...[link.isArchived, link.tags.join('|'), `["https://${host}/custom-${link.clicks}"]`, link.clicks],
    ],
  },
  dub: {
    header: ['Short link', 'Destination URL', 'Clicks', 'Created at', 'Title', 'Tags', 'Archived', 'External ID'],
    row: (link, host) => [
      ...[`https://${short(link, host)}`, link.destination, link.clicks, iso(link.created), link.title],
      ...[link.tags.join(', '), link.isArchived, `ext-${link.clicks}`],
    ],
  },
  rebrandly: {
    header: ['id', 'title', 'slashtag', 'destination', 'shortUrl', 'domain.fullName', 'createdAt', 'clicks', 'tags'],
    row: (link, host) => [
      ...['ffs24cc5b6ee4a5gh7897b06ac2d16d4', link.title, link.code, link.destination, short(link, host), host],
      ...[iso(link.created), link.clicks, link.tags.join(',')],
    ],
  },
  shortio: {
    header: [
      ...['originalURL', 'path', 'shortURL', 'title', 'createdAt', 'archived', 'tags', 'clicks', 'iphoneURL'],
      'clicksLimit',
    ],
    row: (link, host) => [
      ...[link.destination, link.code, `https://${short(link, host)}`, link.title, iso(link.created), link.isArchived],
      ...[link.tags.join(';'), link.clicks, 'https://ios.example.com/', link.clicksMax ?? ''],
    ],
  },
  tinyurl: {
    header: ['tiny_url', 'url', 'alias', 'domain', 'created_at', 'deleted', 'tags', 'hits'],
    separator: ';',
    row: (link, host) => [
      ...[`https://${short(link, host)}`, link.destination, link.code, host, iso(link.created), link.isArchived],
      ...[link.tags.join(','), link.clicks],
    ],
  },
  kutt: {
    header: ['id', 'address', 'target', 'description', 'banned', 'domain', 'visit_count', 'created_at', 'password'],
    row: (link, host) => [
      ...['5c8f1d0e', link.code, link.destination, link.title, link.isArchived ? 't' : 'f', host, link.clicks],
      ...[plainTime(link.created), 'f'],
    ],
  },
  shlink: {
    header: ['createdAt', 'domain', 'shortCode', 'shortUrl', 'longUrl', 'title', 'tags', 'visits', 'meta.maxVisits'],
    row: (link, host) => [
      ...[iso(link.created), host, link.code, `https://${short(link, host)}`, link.destination, link.title],
      ...[link.tags.join('|'), link.clicks, link.clicksMax ?? 'null'],
    ],
  },
  yourls: {
    // As exported without a header.
    header: [],
    row: (link) => [link.code, link.destination, link.title, plainTime(link.created), '192.0.2.7', link.clicks],
  },
  csv: {
    header: ['Slug', 'Where to', 'Made', 'Taps'],
    separator: '\t',
    row: (link) => [link.code, link.destination, seconds(link.created), link.clicks],
  },
};

function quoted(value: string | number | boolean): string {
  const text = String(value);
  return /[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The lines of a file, with a byte order mark as spreadsheets write it. */
export function exportFile(source: ImportSource, host: string, links: readonly ExportedLink[]): string {
  const { header, row, separator = ',' } = exportFormats[source];
  const lines = [...(header.length > 0 ? [header] : []), ...links.map((link) => row(link, host))];
  return `\ufeff${lines.map((cells) => `${cells.map(quoted).join(separator)}\r\n`).join('')}`;
}
