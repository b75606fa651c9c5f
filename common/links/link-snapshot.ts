/**
 * What a redirect and an attribution need to know, in the form cached in Redis and in memory: the link, and the app
 * that owns its host. They are two snapshots, so that changing an app affects one entry instead of one per link.
 */
import { UTM_FIELDS, type UtmField } from '#common/campaign-fields.ts';
import { isObject } from '#common/json-object.ts';
import { type PrivacyMode, privacyModes } from '#common/log/record.ts';
import type { LinkRule } from './link-rule.ts';
import { type LongLinkSettings, longLinkSettingsOf } from './long-link-settings.ts';
import { type QueryMerge, queryMergeOf } from './query-merge.ts';
import { type TapPageMode, tapPageModeOf } from './tap-page.ts';

export interface LinkSnapshot extends Readonly<Record<UtmField, string | null>> {
  readonly id: string;
  readonly app_id: string;
  readonly short_code: string;
  readonly campaign: string | null;
  readonly archived: boolean;
  readonly title: string | null;
  readonly ios_url: string | null;
  readonly android_url: string | null;
  readonly fallback_url: string | null;
  readonly og_title: string | null;
  readonly og_description: string | null;
  readonly og_image_url: string | null;
  /** Epoch milliseconds. */
  readonly expires_at: number | null;
  readonly expired_url: string | null;
  /** Null uses the app's setting. */
  readonly tap_page: TapPageMode | null;
  /** Conditional destinations, in order. */
  readonly rules: readonly LinkRule[] | null;
  /** Hash of the password that visitors must enter; null: none. */
  readonly password_hash: string | null;
  /** Maximum clicks by people; null: no limit. */
  readonly max_clicks: number | null;
}

export interface LinkedApp {
  readonly id: string;
  readonly organization_id: string;
  readonly host: string;
  readonly ios: {
    readonly bundle_id: string | null;
    readonly team_id: string | null;
    readonly app_store_id: string | null;
    readonly uri_scheme: string | null;
  } | null;
  readonly android: {
    readonly package_name: string | null;
    readonly sha256_cert_fingerprints: readonly string[];
    readonly uri_scheme: string | null;
  } | null;
  readonly fallback_url: string | null;
  readonly privacy_mode: PrivacyMode;
  readonly tap_page: TapPageMode;
  readonly query_merge: QueryMerge;
  /** How long devices are matched to its clicks by their signals; 0 for never. */
  readonly probabilistic_window_hours: number;
  /** Its codes are stored in lower case and matched case-insensitively. */
  readonly codes_ignore_case: boolean;
  /** Null: Firebase long links are not answered. */
  readonly firebase_links: LongLinkSettings | null;
  /** Whether unknown codes are looked up at the app's old service. */
  readonly migrates: boolean;
  /** Custom HTML for browsers; null for the default page. */
  readonly pages: AppPages;
}

export interface AppPages {
  readonly not_found: string | null;
  readonly expired: string | null;
}

/** Maximum size of a custom page, because it is part of each snapshot of the app. */
export const PAGE_BYTES_MAX = 16_384;

/** The part of the Postgres wrapper that the lookups need. */
export interface LinkDatabase {
  query<Row extends object>(sql: string, values: readonly unknown[]): Promise<readonly Row[]>;
}

/** The key of a link: host and short code as in the URL, `myapp.localhost/summer`. */
export function linkKey(host: string, shortCode: string): string {
  return `${host}/${shortCode}`;
}

/** The parts of a key: a host has no slash. */
function partsOf(key: string): [host: string, shortCode: string] {
  const slash = key.indexOf('/');
  return [key.slice(0, slash), key.slice(slash + 1)];
}

/** The columns of a snapshot, from `links l`. */
export const linkSnapshotColumns = `l.id, l.app_id, l.short_code, l.campaign, l.archived, l.title,
       l.ios_url, l.android_url, l.fallback_url,
       l.utm_source, l.utm_medium, l.utm_campaign, l.utm_term, l.utm_content,
       l.og_title, l.og_description, l.og_image_url, l.expires_at, l.expired_url, l.tap_page, l.rules, l.max_clicks,
       CASE WHEN l.has_password THEN coalesce((SELECT p.hash FROM link_passwords p WHERE p.link_id = l.id), '-') END AS password_hash`;
const appsOfKeys = `unnest($1::text[], $2::text[]) AS k(host, code)
  JOIN apps a ON a.host = k.host AND a.deleted_at IS NULL AND a.host_verified_at IS NOT NULL`;

/** By the link's own code, or by another of its codes. */
const linksByKey = `
SELECT k.host, k.code, ${linkSnapshotColumns} FROM ${appsOfKeys}
  JOIN links l ON l.app_id = a.id AND l.short_code = k.code AND l.deleted_at IS NULL
UNION ALL
SELECT k.host, k.code, ${linkSnapshotColumns} FROM ${appsOfKeys}
  JOIN link_codes c ON c.app_id = a.id AND c.code = k.code
  JOIN links l ON l.id = c.link_id AND l.deleted_at IS NULL`;

export interface LinkSnapshotRow extends Omit<LinkSnapshot, 'expires_at'> {
  readonly expires_at: Date | null;
}

export function linkSnapshotOf(row: LinkSnapshotRow): LinkSnapshot {
  return { ...row, expires_at: row.expires_at === null ? null : new Date(row.expires_at).getTime() };
}

interface LinkRow extends LinkSnapshotRow {
  readonly host: string;
  readonly code: string;
}

/**
 * Links by key, including archived ones, but not deleted ones and those of an unverified host. Keys without an entry do
 * not exist.
 */
export async function readLinks(db: LinkDatabase, keys: readonly string[]): Promise<Map<string, LinkSnapshot>> {
  const parts = keys.map(partsOf);
  const found = new Map<string, LinkSnapshot>();
  for (const { host, code, ...row } of await db.query<LinkRow>(linksByKey, [
    parts.map(([host]) => host),
    parts.map(([, code]) => code),
  ])) {
    found.set(linkKey(host, code), linkSnapshotOf(row));
  }
  return found;
}

/** The columns of a snapshot, from `apps`. */
export const linkedAppColumns = 'id, organization_id, host, ios, android, fallback_url, settings, pages';

const appsByHost = `
SELECT ${linkedAppColumns}
  FROM apps
 WHERE host = ANY($1::text[]) AND deleted_at IS NULL AND host_verified_at IS NOT NULL`;

export interface LinkedAppRow {
  readonly id: string;
  readonly organization_id: string;
  readonly host: string;
  readonly ios: Readonly<Record<string, unknown>> | null;
  readonly android: Readonly<Record<string, unknown>> | null;
  readonly fallback_url: string | null;
  readonly settings: Readonly<Record<string, unknown>> | null;
  readonly pages: Readonly<Record<string, unknown>> | null;
}

/** Apps by host, but not deleted ones and those with an unverified host. */
export async function readApps(db: LinkDatabase, hosts: readonly string[]): Promise<Map<string, LinkedApp>> {
  const found = new Map<string, LinkedApp>();
  for (const row of await db.query<LinkedAppRow>(appsByHost, [hosts])) found.set(row.host, linkedAppOf(row));
  return found;
}

export function linkedAppOf(row: LinkedAppRow): LinkedApp {
  const { ios, android, settings } = row;
  const fingerprints = android?.['sha256_cert_fingerprints'];
  return {
    id: row.id,
    organization_id: row.organization_id,
    host: row.host,
    ios: ios && {
      bundle_id: textOf(ios['bundle_id']),
      team_id: textOf(ios['team_id']),
      app_store_id: textOf(ios['app_store_id']),
      uri_scheme: textOf(ios['uri_scheme']),
    },
    android: android && {
      package_name: textOf(android['package_name']),
      sha256_cert_fingerprints: Array.isArray(fingerprints) ? fingerprints.map(String) : [],
      uri_scheme: textOf(android['uri_scheme']),
    },
    fallback_url: row.fallback_url,
    privacy_mode: privacyModes.find((mode) => mode === settings?.['privacy_mode']) ?? 'anonymize_ip',
    ...optionsOf(settings ?? {}),
    pages: pagesOf(row.pages),
  };
}

/** Settings that snapshots of older versions lack. @param settings of an app as stored, or its snapshot. */
function optionsOf(settings: Readonly<Record<string, unknown>>) {
  const { tap_page, probabilistic_window_hours: hours, codes_ignore_case, firebase_links } = settings;
  const { migrates, migration } = settings;
  return {
    tap_page: tapPageModeOf(tap_page) ?? 'off',
    query_merge: queryMergeOf(settings['query_merge']),
    probabilistic_window_hours: typeof hours === 'number' ? hours : 0,
    codes_ignore_case: codes_ignore_case === true,
    firebase_links: longLinkSettingsOf(firebase_links),
    migrates: migrates === true || isObject(migration),
  } as const;
}

function pagesOf(value: unknown): AppPages {
  const pages = isObject(value) ? value : {};
  return { not_found: textOf(pages['not_found']), expired: textOf(pages['expired']) };
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/**
 * A link as text: its fields in the order of the interface. It is half as long as an object and takes half the time to
 * parse, which is most of the cost of a link that Redis has. The key in Redis contains the version of this order.
 */
export function encodeLink(link: LinkSnapshot): string {
  return JSON.stringify([
    ...[link.id, link.app_id, link.short_code, link.campaign, link.archived, link.title],
    ...[link.ios_url, link.android_url, link.fallback_url],
    ...UTM_FIELDS.map((name) => link[name]),
    ...[link.og_title, link.og_description, link.og_image_url, link.expires_at, link.expired_url],
    link.tap_page,
    ...laterFields(link),
  ]);
}

/** Omits trailing null fields, so that redirectors of older versions can read it. */
function laterFields({ rules, password_hash, max_clicks }: LinkSnapshot): readonly unknown[] {
  const fields = [rules, password_hash, max_clicks];
  while (fields.at(-1) === null) fields.pop();
  return fields;
}

const linkFields = 23;
/** Snapshots of versions without tap pages, which may run next to this one during an upgrade. */
const linkFieldsMin = 19;

/** Undefined if the text was not written by `encodeLink`. */
export function decodeLink(text: string): LinkSnapshot | undefined {
  const f = parsed(text);
  if (!Array.isArray(f) || f.length < linkFieldsMin || f.length > linkFields || typeof f[0] !== 'string')
    return undefined;
  return {
    id: f[0],
    app_id: f[1],
    short_code: f[2],
    campaign: f[3],
    archived: f[4],
    title: f[5],
    ios_url: f[6],
    android_url: f[7],
    fallback_url: f[8],
    utm_source: f[9],
    utm_medium: f[10],
    utm_campaign: f[11],
    utm_term: f[12],
    utm_content: f[13],
    og_title: f[14],
    og_description: f[15],
    og_image_url: f[16],
    expires_at: f[17],
    expired_url: f[18],
    tap_page: tapPageModeOf(f[19]),
    rules: f[20] ?? null,
    password_hash: f[21] ?? null,
    max_clicks: f[22] ?? null,
  };
}

export function decodeApp(text: string): LinkedApp | undefined {
  const value = parsed(text);
  return isAppSnapshot(value) ? { ...value, ...optionsOf({ ...value }), pages: pagesOf(value.pages) } : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isAppSnapshot(value: unknown): value is LinkedApp {
  return isObject(value) && typeof value['id'] === 'string' && typeof value['organization_id'] === 'string';
}
