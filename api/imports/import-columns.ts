/**
 * The columns that an import reads, and their names in each service. Headers are compared without case, spaces and
 * punctuation, so that `Short URL`, `short_url` and `shortUrl` are the same.
 */
import { firstCharacters } from '#common/first-characters.ts';
import { type OwnColumns, ownColumnsOf } from './own-columns.ts';

export const importFields = [
  ...['short_url', 'code', 'host', 'other_codes', 'destination', 'path', 'title', 'created_at', 'clicks', 'tags'],
  ...['archived', 'expires_at', 'expired_url', 'ios_url', 'android_url', 'external_id', 'campaign', 'data'],
  ...['utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content'],
  ...['og_title', 'og_description', 'og_image_url', 'password', 'max_clicks', 'starts_at', 'targeting'],
] as const;
/** Parameters that only Firebase Dynamic Links have. */
export const firebaseFields = [
  ...['link', 'apn', 'afl', 'amv', 'ibi', 'ifl', 'ius', 'ipfl', 'ipbi', 'isi', 'imv', 'efr', 'ofl'],
  ...['at', 'ct', 'mt', 'pt'],
] as const;
export type ImportField = (typeof importFields)[number] | (typeof firebaseFields)[number];

export function isImportField(name: string): boolean {
  return [...importFields, ...firebaseFields].some((one) => one === name);
}

export const importSources = [
  ...['firebase', 'branch', 'bitly', 'dub', 'rebrandly', 'shortio', 'tinyurl', 'kutt', 'shlink', 'yourls', 'csv'],
] as const;
export type ImportSource = (typeof importSources)[number];

type Names = Readonly<Partial<Record<ImportField, readonly string[]>>>;

/** Column names that several services use. A service's own list takes precedence. */
const common: Names = {
  short_url: ['short_url', 'short_link', 'shortened_url', 'branded_link', 'bitlink', 'tiny_url'],
  code: ['code', 'short_code', 'slug', 'custom_slug', 'key', 'keyword', 'slashtag', 'alias', 'back_half'],
  // Some exports have only the number of a domain.
  host: ['host', 'domain', 'domain_name', 'hostname', 'domain_id', 'domain_uuid'],
  other_codes: ['other_codes'],
  destination: [
    'destination',
    'destination_url',
    'long_url',
    'original_url',
    'target',
    'target_url',
    'url',
    'fallback_url',
  ],
  path: ['in_app_path', 'deeplink_path'],
  title: ['title', 'name', 'label', 'description'],
  created_at: ['created_at', 'created', 'date_created', 'creation_date', 'created_on', 'timestamp'],
  clicks: ['clicks', 'total_clicks', 'click_count', 'visits', 'visits_count', 'visit_count', 'hits', 'engagements'],
  tags: ['tags', 'labels'],
  archived: ['archived', 'is_archived', 'disabled', 'deleted', 'banned'],
  expires_at: ['expires_at', 'expiration_date', 'expire_in', 'valid_until', 'expiry'],
  expired_url: ['expired_url'],
  ios_url: ['ios_url', 'ios', 'iphone_url'],
  android_url: ['android_url', 'android'],
  external_id: ['external_id'],
  campaign: ['campaign'],
  utm_source: ['utm_source'],
  utm_medium: ['utm_medium'],
  utm_campaign: ['utm_campaign'],
  utm_term: ['utm_term'],
  utm_content: ['utm_content'],
  og_title: ['og_title'],
  og_description: ['og_description'],
  og_image_url: ['og_image_url', 'og_image'],
  password: ['password', 'password_protected', 'has_password'],
  max_clicks: ['max_clicks', 'max_visits', 'clicks_limit', 'click_limit', 'max_hits', 'expiration_hits'],
  starts_at: ['starts_at', 'valid_since'],
  targeting: [
    'targeting',
    'geo',
    'geo_targeting',
    'country_targeting',
    'rules',
    'redirect_rules',
    'routing_rules',
    'has_redirect_rules',
  ],
};

/** Google documents the fields in this order, with the parameter of a long link in brackets. */
const firebase: readonly (readonly [ImportField, ...string[]])[] = [
  ['short_url', 'Short link'],
  ['link', 'Deep link (link)', 'Deep link'],
  ['apn', 'Android package name (apn)', 'Android package name'],
  ['afl', 'Android fallback link (afl)', 'Android fallback link'],
  ['amv', 'Android minimum package version code (amv)', 'Android minimum package version code'],
  ['ibi', 'iOS bundle ID (ibi)', 'iOS bundle ID'],
  ['ifl', 'iOS fallback link (ifl)', 'iOS fallback link'],
  ['ius', 'iOS custom scheme (ius)', 'iOS custom scheme'],
  ['ipfl', 'iOS iPad fallback link (ipfl)', 'iOS iPad fallback link'],
  ['ipbi', 'iOS iPad bundle ID (ipbi)', 'iOS iPad bundle ID'],
  ['isi', 'iOS app store ID (isi)', 'iOS app store ID'],
  ['imv', 'iOS minimum version (imv)', 'iOS minimum version'],
  ['efr', 'Enable forced redirect? (efr)', 'Enable forced redirect?'],
  ['ofl', 'Desktop fallback link (ofl)', 'Desktop fallback link'],
  ['og_title', 'Social title (st)', 'Social title', 'st'],
  ['og_description', 'Social description (sd)', 'Social description', 'sd'],
  ['og_image_url', 'Social image link (si)', 'Social image link', 'si'],
  ['utm_source', 'UTM source (utm_source)', 'UTM source'],
  ['utm_medium', 'UTM medium (utm_medium)', 'UTM medium'],
  ['utm_campaign', 'UTM campaign (utm_campaign)', 'UTM campaign'],
  ['utm_term', 'UTM term (utm_term)', 'UTM term'],
  ['utm_content', 'UTM content (utm_content)', 'UTM content'],
  ['at', 'iTunes Connect at'],
  ['ct', 'iTunes Connect ct'],
  ['mt', 'iTunes Connect mt'],
  ['pt', 'iTunes Connect pt'],
  ['archived', 'Archived?'],
  ['title', 'Link name'],
  ['created_at', 'Creation timestamp', 'Created timestamp'],
];

interface SourceColumns {
  readonly names: Names;
  /** The order of columns in a file without a header. */
  readonly positions?: readonly (ImportField | null)[];
}

const sources: Readonly<Record<ImportSource, SourceColumns>> = {
  firebase: {
    names: Object.fromEntries(firebase.map(([field, ...names]) => [field, [...names, field]])),
    positions: firebase.map(([field]) => field),
  },
  branch: {
    names: {
      short_url: ['url', 'link', 'short_url', 'quick_link'],
      destination: ['$desktop_url', '$fallback_url', '$canonical_url', 'desktop_url'],
      path: ['$deeplink_path', 'deeplink_path', '$canonical_identifier'],
      title: ['$marketing_title', 'marketing_title', 'link_title', 'title'],
      ios_url: ['$ios_url', 'ios_url'],
      android_url: ['$android_url', 'android_url'],
      og_title: ['$og_title', 'og_title'],
      og_description: ['$og_description', 'og_description'],
      og_image_url: ['$og_image_url', 'og_image_url'],
      campaign: ['~campaign', 'campaign'],
      utm_source: ['~channel', 'channel'],
      utm_medium: ['~feature', 'feature'],
      tags: ['~tags', 'tags'],
      created_at: ['~creation_date', 'creation_date', 'creation_time', 'created_at'],
    },
  },
  bitly: {
    names: {
      short_url: ['link', 'bitlink', 'short_link', 'short_url', 'id'],
      other_codes: ['custom_bitlinks', 'custom_links', 'custom_back_halves'],
    },
  },
  dub: { names: { external_id: ['external_id'], og_title: ['proxy_title'] } },
  rebrandly: { names: { host: ['domain', 'domain_full_name', 'domain.full_name'] } },
  shortio: { names: { code: ['path', 'slug'] } },
  tinyurl: { names: { short_url: ['tiny_url', 'tinyurl', 'short_url'], code: ['alias'] } },
  kutt: { names: { code: ['address'], short_url: ['link'], host: ['domain', 'domain.address', 'domain_id'] } },
  shlink: {
    // Fields of Branch's API, flattened.
    names: {
      clicks: ['visits', 'visits_count', 'visits_summary.total'],
      max_clicks: ['max_visits', 'meta.max_visits'],
      starts_at: ['valid_since', 'meta.valid_since'],
      expires_at: ['valid_until', 'meta.valid_until'],
    },
  },
  yourls: {
    names: { code: ['keyword'], short_url: ['short_url'] },
    positions: ['code', 'destination', 'title', 'created_at', null, 'clicks'],
  },
  csv: { names: {} },
};

const plain = (name: string) => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '');

/** The position of each column, from 0. */
export type Columns = Readonly<Partial<Record<ImportField, number>>>;
/** A column by its header or by its number, from 1; null ignores it. */
export type ColumnChoice = Readonly<Record<string, string | number | null>>;

export interface Layout {
  readonly columns: Columns;
  readonly hasHeader: boolean;
  /** Headers of unused columns, by position. */
  readonly others: Readonly<Record<number, string>>;
  /** How many cells a row can have; absent in imports that began before this was stored. */
  readonly width?: number;
  /** Positions of the fields of a link, in the file that the dashboard saves. */
  readonly own?: OwnColumns;
}

/** Columns of a file that only lists links. */
const listPositions = ['short_url'] as const;

/**
 * Finds the columns from the first record of the file, or says what is missing.
 * @param isList whether the file only needs to list the links.
 */
export function layoutOf(
  source: ImportSource,
  first: readonly string[],
  choice: ColumnChoice,
  isList = false,
): Layout | string {
  const own = source === 'csv' ? ownLayout(first, choice) : null;
  if (own !== null) return own;
  const positions = isList ? listPositions : sources[source].positions;
  const byName = columnsByName(source, first);
  // A header contains names; a first row of data contains a URL.
  const isData = first.some((cell) => /^(?:https?:)?\/\/|^https?:/i.test(cell.trim()));
  const isNumbered = Object.values(choice).some((one) => typeof one === 'number');
  const hasHeader = !(isData && (positions !== undefined || isNumbered));
  const columns: Partial<Record<string, number>> = hasHeader ? byName : byPosition(positions ?? []);
  for (const [field, column] of Object.entries(choice)) {
    delete columns[field];
    if (column === null) continue;
    const at = typeof column === 'number' ? column - 1 : first.findIndex((cell) => plain(cell) === plain(column));
    if (at < 0 || at >= first.length) return `columns.${field}: the file has no column ${column}`;
    columns[field] = at;
  }
  const missing = missingColumn(source, columns, isList);
  if (missing !== null) return `${missing} The columns are: ${firstCharacters(first.join(', '), 1_000)}`;
  const read = new Set(Object.values(columns));
  const others = hasHeader
    ? first.flatMap((name, at) => (read.has(at) || name.trim() === '' ? [] : [[at, name.trim()]]))
    : [];
  const last = first.findLastIndex((cell) => cell.trim() !== '');
  const width = hasHeader ? last + 1 : Math.max(last + 1, positions?.length ?? 0);
  return { columns, hasHeader, others: Object.fromEntries(others), width };
}

/** The layout of the file of links that the dashboard saves; null for any other file. */
function ownLayout(first: readonly string[], choice: ColumnChoice): Layout | string | null {
  const found = ownColumnsOf(first);
  if (found === null) return null;
  const columns = { ...found };
  for (const [field, column] of Object.entries(choice)) {
    if (column !== null) return `columns.${field}: the columns of this file have the names of fields; null ignores one`;
    delete columns[field];
  }
  const read = new Set(Object.values(columns));
  const others = first.flatMap((name, at) => (read.has(at) || name === '' ? [] : [[at, name]]));
  return { columns: {}, hasHeader: true, others: Object.fromEntries(others), width: first.length, own: columns };
}

/** Headers of the file that the import ignores. */
export function ignoredColumns(source: ImportSource, layout: Layout | null, isList = false): string[] {
  // Unused columns of Branch are passed to the app.
  return layout === null || (source === 'branch' && !isList) ? [] : Object.values(layout.others);
}

function columnsByName(source: ImportSource, header: readonly string[]): Partial<Record<string, number>> {
  const found: Partial<Record<string, number>> = {};
  const taken = new Set<number>();
  const names = header.map(plain);
  // Firebase's own names are complete, and `link` means something else elsewhere.
  for (const list of source === 'firebase' ? [sources.firebase.names] : [sources[source].names, common]) {
    for (const [field, aliases] of Object.entries(list)) {
      if (found[field] !== undefined) continue;
      const at = aliases.map((alias) => names.indexOf(plain(alias))).find((one) => one >= 0 && !taken.has(one));
      if (at === undefined) continue;
      found[field] = at;
      taken.add(at);
    }
  }
  return found;
}

function byPosition(positions: readonly (ImportField | null)[]): Partial<Record<string, number>> {
  return Object.fromEntries(positions.flatMap((field, at) => (field === null ? [] : [[field, at]])));
}

function missingColumn(source: ImportSource, columns: Partial<Record<string, number>>, isList: boolean): string | null {
  if (isList)
    return columns['short_url'] === undefined
      ? 'No column contains the URLs of the links. Set columns.short_url to one.'
      : null;
  if (columns['short_url'] === undefined && columns['code'] === undefined)
    return 'No column contains the short URL or the code. Set columns.short_url or columns.code to one.';
  const target = source === 'firebase' ? 'link' : 'destination';
  return columns[target] === undefined ? `No column contains the destination. Set columns.${target} to one.` : null;
}
