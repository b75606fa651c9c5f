/** The writable fields of an app: schemas, defaults, and the rules that a schema can't express. */
import { type Static, type TSchema, Type } from 'typebox';
import { type FieldError, invalidFields, type Rejection } from '#common/http/rejection.ts';
import { isObject } from '#common/json-object.ts';
import type { AppSettings } from '#common/links/app-snapshot.ts';
import { nullable } from '#common/links/link-fields.ts';
import { PAGE_BYTES_MAX } from '#common/links/link-snapshot.ts';
import type { LongLinkSettings } from '#common/links/long-link-settings.ts';
import { type QueryMerge, queryMerges } from '#common/links/query-merge.ts';
import { codeOfPath } from '#common/links/short-code.ts';
import { type TapPageMode, tapPageModes } from '#common/links/tap-page.ts';
import { hostOf, URL_CHARACTERS_MAX, urlFaults } from '#common/links/web-address.ts';
import { migrationFaults, migrationField, ownHostFault, storedMigration } from './migration-setting.ts';

export const defaultSettings: AppSettings = {
  attribution_window_hours: 168,
  probabilistic_window_hours: 6,
  min_confidence: 0.6,
  privacy_mode: 'anonymize_ip',
  conversion_events: [],
  tap_page: 'off',
  query_merge: 'destination',
  sdk_links: true,
  codes_ignore_case: false,
  firebase_links: null,
  migration: null,
};

/** A custom URI scheme (RFC 3986). Schemes with a meaning in browsers are rejected. */
const uriScheme = nullable(
  Type.String({
    pattern:
      '^(?!(?:https?|javascript|vbscript|data|file|blob|about|intent|mailto|tel|sms|ftp|wss?)$)[a-z][a-z0-9+.-]{1,63}$',
    examples: ['myshop'],
    description: 'A URI scheme that opens the app, in lower case and without ://',
  }),
);

const closed = { additionalProperties: false } as const;

const iosFields = {
  bundle_id: Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9.-]{0,154}$', examples: ['com.example.shop'] }),
  team_id: nullable(
    Type.String({
      pattern: '^[A-Z0-9]{10}$',
      examples: ['ABCDE12345'],
      description: 'Required for universal links: without it, the apple-app-site-association file gives 404.',
    }),
  ),
  app_store_id: nullable(
    Type.String({
      pattern: '^[0-9]{1,20}$',
      examples: ['1234567890'],
      description: 'The number in the App Store URL.',
    }),
  ),
  uri_scheme: uriScheme,
};

const androidFields = {
  package_name: Type.String({
    maxLength: 255,
    pattern: '^[A-Za-z][A-Za-z0-9_]*(?:\\.[A-Za-z][A-Za-z0-9_]*)+$',
    examples: ['com.example.shop'],
  }),
  sha256_cert_fingerprints: nullable(
    Type.Array(
      Type.String({ pattern: '^(?:[0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2}$', examples: [Array(32).fill('A1').join(':')] }),
      {
        maxItems: 20,
        description:
          'SHA-256 fingerprints of the signing certificates. Required for app links: without one, assetlinks.json gives 404.',
      },
    ),
  ),
  uri_scheme: uriScheme,
};

const settingsFields = {
  attribution_window_hours: nullable(Type.Integer({ minimum: 1, maximum: 2160, description: 'Default 168.' })),
  probabilistic_window_hours: nullable(
    Type.Integer({ minimum: 0, maximum: 72, description: '0 turns probabilistic matching off; default 6.' }),
  ),
  min_confidence: nullable(Type.Number({ minimum: 0, maximum: 1, description: 'Default 0.6.' })),
  privacy_mode: Type.Optional(
    Type.Unsafe<AppSettings['privacy_mode'] | null>({
      type: ['string', 'null'],
      enum: ['anonymize_ip', 'full_ip', 'no_ip', null],
      description: 'How visitors’ IP addresses are stored; default anonymize_ip.',
    }),
  ),
  conversion_events: nullable(
    Type.Array(Type.String({ minLength: 1, maxLength: 128 }), { maxItems: 20, uniqueItems: true }),
  ),
  tap_page: Type.Optional(
    Type.Unsafe<TapPageMode | null>({
      type: ['string', 'null'],
      enum: [...tapPageModes, null],
      description: 'Platforms on which links show a page with a button before the store; default off.',
    }),
  ),
  query_merge: Type.Optional(
    Type.Unsafe<QueryMerge | null>({
      type: ['string', 'null'],
      enum: [...queryMerges, null],
      description:
        'Which value a query parameter keeps that the destination and the visit both name; default destination. The visit’s utm parameters always replace those of the destination.',
    }),
  ),
  sdk_links: nullable(Type.Boolean({ description: 'Whether the API key may create links; default true.' })),
  codes_ignore_case: nullable(
    Type.Boolean({
      description:
        'Whether short codes are case-insensitive. They are then stored in lower case; rejected while a link has a code with capital letters. Default false.',
    }),
  ),
  firebase_links: nullable(
    Type.Object(
      {
        hosts: Type.Array(Type.String({ minLength: 1, maxLength: 253 }), {
          minItems: 1,
          maxItems: 100,
          description:
            'Allowed destination hosts. The link, afl, ifl, ipfl and ofl parameters must each point to one of them.',
        }),
        prefixes: Type.Optional(
          Type.Array(
            Type.String({
              minLength: 2,
              maxLength: 190,
              pattern: '^/[A-Za-z0-9_.~/-]*[A-Za-z0-9_.~-]$',
              examples: ['/promo'],
            }),
            {
              maxItems: 20,
              description: 'Paths of such links besides /, such as /promo for https://host/promo/?link=…',
            },
          ),
        ),
      },
      {
        ...closed,
        description:
          'Answer Firebase long links (https://host/?link=…). Replaced as a whole; default null: not answered.',
      },
    ),
  ),
  migration: migrationField,
};

const partOf = (fields: Record<string, TSchema>, more: { description: string; required?: string[] }) =>
  Type.Unsafe<Record<string, unknown> | null>({ type: ['object', 'null'], ...more, properties: fields, ...closed });

const page = (description: string) =>
  nullable(
    Type.String({ minLength: 1, maxLength: PAGE_BYTES_MAX, description: `${description} HTML, at most 16 KiB.` }),
  );

const pagesFields = {
  not_found: page('Shown for an unknown address of the host.'),
  expired: page('Shown for an expired link without an expired_url.'),
};

/** Every property is optional: required ones are checked after the change is merged into the stored app. */
const partial = (fields: Record<string, TSchema>, description: string) => partOf(fields, { description });

const written = {
  name: Type.String({ minLength: 1, maxLength: 100, format: 'visible' }),
  host: Type.String({
    minLength: 1,
    maxLength: 253,
    description: 'Host name of the short links, without a scheme. Default: derived from the name of the app.',
  }),
  ios: partial(iosFields, 'bundle_id is required unless it is already set.'),
  android: partial(androidFields, 'package_name is required unless it is already set.'),
  fallback_url: nullable(
    Type.String({
      minLength: 1,
      maxLength: URL_CHARACTERS_MAX,
      description: 'Destination on desktop and unknown platforms; an https URL.',
    }),
  ),
  allowed_destination_hosts: nullable(
    Type.Array(Type.String({ minLength: 1, maxLength: 253 }), {
      maxItems: 100,
      description: 'Hosts that links created with the API key may point to.',
    }),
  ),
  pages: partial(
    pagesFields,
    'Custom pages for browsers. Inline styles, and images and fonts over https, are allowed; scripts and forms do not work.',
  ),
  settings: partial(settingsFields, 'Omitted settings keep their value.'),
};

const { name, ...others } = written;
const optional = Object.fromEntries(
  Object.entries(others).map(([field, schema]) => [field, Type.Optional(schema)]),
) as { [K in keyof typeof others]: ReturnType<typeof Type.Optional<(typeof others)[K]>> };

export const newAppBody = Type.Object(
  {
    organization_id: Type.Optional(
      Type.String({ description: 'Optional for a user who belongs to exactly one organization.' }),
    ),
    name,
    ...optional,
    ios: Type.Optional(partOf(iosFields, { description: 'The app on iOS.', required: ['bundle_id'] })),
    android: Type.Optional(partOf(androidFields, { description: 'The app on Android.', required: ['package_name'] })),
  },
  { ...closed, title: 'NewApp' },
);
export const appChangesBody = Type.Object(
  { name: Type.Optional(name), ...optional },
  { ...closed, minProperties: 1, title: 'AppChanges' },
);

export type AppChanges = Static<typeof appChangesBody>;

/** The columns of `apps` that callers can write. */
export interface AppFields {
  readonly name: string;
  readonly host: string;
  readonly ios: Readonly<Record<string, unknown>> | null;
  readonly android: Readonly<Record<string, unknown>> | null;
  readonly fallback_url: string | null;
  readonly allowed_destination_hosts: readonly string[];
  readonly pages: Readonly<Record<string, unknown>> | null;
  readonly settings: AppSettings;
}

/** The defaults of a new app. */
export const emptyApp: Omit<AppFields, 'name' | 'host'> = {
  ios: null,
  android: null,
  fallback_url: null,
  allowed_destination_hosts: [],
  pages: null,
  settings: defaultSettings,
};

/** Rules that the app schemas can't express. Accepts any object; the schemas report wrong types. */
export function appFaults(app: Readonly<Record<string, unknown>>): FieldError[] {
  const faults: FieldError[] = urlFaults(app, ['fallback_url']);
  const { host, allowed_destination_hosts: hosts, pages, settings } = app;
  if (typeof host === 'string' && hostOf(host) === null)
    faults.push({ field: 'host', message: 'must be a host name such as go.example.com' });
  for (const [at, one] of Array.isArray(hosts) ? hosts.entries() : []) {
    if (typeof one === 'string' && hostOf(one) === null)
      faults.push({ field: `allowed_destination_hosts[${at}]`, message: 'must be a host name' });
  }
  faults.push(...longLinkFaults(isObject(settings) ? settings['firebase_links'] : null));
  faults.push(...migrationFaults(isObject(settings) ? settings['migration'] : null));
  for (const [name, html] of Object.entries(isObject(pages) ? pages : {}))
    if (typeof html === 'string' && Buffer.byteLength(html) > PAGE_BYTES_MAX)
      faults.push({ field: `pages.${name}`, message: `must have at most ${PAGE_BYTES_MAX} bytes` });
  return faults;
}

function longLinkFaults(setting: unknown): FieldError[] {
  if (!isObject(setting)) return [];
  const { hosts, prefixes } = setting;
  const faulty = (list: unknown, name: string, isValid: (text: string) => boolean, message: string) =>
    (Array.isArray(list) ? list : []).flatMap((one, at) =>
      typeof one !== 'string' || isValid(one) ? [] : [{ field: `settings.firebase_links.${name}[${at}]`, message }],
    );
  return [
    ...faulty(hosts, 'hosts', (text) => hostOf(text) !== null, 'must be a host name'),
    ...faulty(
      prefixes,
      'prefixes',
      (text) => codeOfPath(text) !== null && !text.endsWith('/'),
      'must be a path that is not reserved',
    ),
  ];
}

/** The app after a change: omitted fields stay, null clears, also inside ios, android and settings. */
export function changedApp(before: AppFields, changes: AppChanges): AppFields | { readonly rejection: Rejection } {
  const faults = appFaults(changes);
  const host = changes.host === undefined ? before.host : hostOf(changes.host);
  const hosts = changes.allowed_destination_hosts;
  const allowed = hosts === undefined ? before.allowed_destination_hosts : allowedHosts(hosts ?? []);
  const ios = mergedPart(before.ios, changes.ios, iosFields);
  if (ios && ios['bundle_id'] === null) faults.push({ field: 'ios.bundle_id', message: 'is required' });
  const android = mergedPart(before.android, changes.android, androidFields);
  if (android && android['package_name'] === null)
    faults.push({ field: 'android.package_name', message: 'is required' });
  const settings = faults.length > 0 ? before.settings : mergedSettings(before.settings, changes.settings);
  const ownHost = ownHostFault(settings.migration, host ?? before.host);
  if (ownHost !== null) faults.push({ field: 'settings.migration.url', message: ownHost });
  if (faults.length > 0 || host === null) return { rejection: invalidFields(faults) };
  return {
    name: changes.name?.trim() ?? before.name,
    host,
    ios,
    android: android && { ...android, sha256_cert_fingerprints: fingerprints(android['sha256_cert_fingerprints']) },
    fallback_url: changes.fallback_url === undefined ? before.fallback_url : changes.fallback_url,
    allowed_destination_hosts: allowed,
    pages: mergedPages(before.pages, changes.pages),
    settings,
  };
}

function mergedPart(
  before: Readonly<Record<string, unknown>> | null,
  changes: Record<string, unknown> | null | undefined,
  fields: Record<string, TSchema>,
): Record<string, unknown> | null {
  if (changes === null) return null;
  if (changes === undefined) return before;
  return Object.fromEntries(
    Object.keys(fields).map((name) => [name, (name in changes ? changes : before)?.[name] ?? null]),
  );
}

/** Null if there is no page. */
function mergedPages(before: AppFields['pages'], changes: Record<string, unknown> | null | undefined) {
  const pages = mergedPart(before, changes, pagesFields);
  return pages && Object.values(pages).some((html) => html !== null) ? pages : null;
}

function mergedSettings(before: AppSettings, changes: Record<string, unknown> | null | undefined): AppSettings {
  if (changes === null || changes === undefined) return changes === null ? defaultSettings : before;
  const merged = Object.entries({ ...before, ...changes }).map(([name, value]) => [
    name,
    value ?? Reflect.get(defaultSettings, name),
  ]);
  const settings: AppSettings = Object.fromEntries(merged);
  const { firebase_links: given, migration } = settings;
  const firebase_links: LongLinkSettings | null = given
    ? { hosts: allowedHosts(given.hosts), prefixes: [...new Set(given.prefixes ?? [])] }
    : null;
  return { ...settings, firebase_links, migration: migration ? storedMigration(migration) : null };
}

function allowedHosts(given: readonly string[]): string[] {
  return [...new Set(given.map((text) => hostOf(text) ?? ''))];
}

function fingerprints(value: unknown): string[] {
  return Array.isArray(value) ? [...new Set(value.map((one) => String(one).toUpperCase()))] : [];
}
