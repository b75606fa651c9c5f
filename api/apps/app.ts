/** An app as stored in Postgres and as returned by the API. */
import { Type } from 'typebox';
import { absent } from '#api/access.ts';
import type { Rejection } from '#common/http/rejection.ts';
import type { AppSettings } from '#common/links/app-snapshot.ts';
import { nullable } from '#common/links/link-fields.ts';
import { type QueryMerge, queryMerges } from '#common/links/query-merge.ts';
import { type TapPageMode, tapPageModes } from '#common/links/tap-page.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import { type AppFields, defaultSettings } from './fields.ts';
import { type HostRules, hostRecord, isOwnHost } from './host.ts';
import type { HostProblem } from './host-checks.ts';
import { storedMigrationSchema } from './migration-setting.ts';

export interface AppRow extends AppFields {
  readonly id: string;
  readonly organization_id: string;
  readonly api_key_ciphertext: string;
  readonly api_key_hash: Buffer;
  readonly api_key_preview: string;
  readonly version: number;
  readonly host_verified_at: Date | null;
  /** The last attempt to verify the host; null before the first one, and once it is verified. */
  readonly host_check: { readonly checked_at: string | null; readonly problem: HostProblem | null } | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

export const appColumns = `id, organization_id, name, host, ios, android, fallback_url, allowed_destination_hosts, pages, settings,
  api_key_ciphertext, api_key_hash, api_key_preview, version, created_at, updated_at, host_verified_at,
  (SELECT jsonb_build_object('checked_at', c.checked_at, 'problem', c.problem)
     FROM host_checks c WHERE c.app_id = apps.id AND c.host = apps.host) AS host_check`;

const byId = `SELECT ${appColumns} FROM apps WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL`;

/** An app of the caller's organizations, or why they can't access it. `lock` locks it until the transaction ends. */
export async function findApp(tenant: TenantQueries, id: string, lock = false): Promise<AppRow | Rejection> {
  const [app] = await tenant.query<AppRow>(lock ? `${byId} FOR NO KEY UPDATE` : byId, [id]);
  return app ?? absent(tenant, 'app', id);
}

/** Whether the host is served and, if not, which DNS record is required. */
function hostVerification(row: AppRow, rules: HostRules): object {
  const { host, host_verified_at, host_check } = row;
  const record = isOwnHost(rules, host) ? { record_name: null, record_value: null } : hostRecord(host, row.id);
  const checkedAt = host_verified_at ?? (host_check?.checked_at ? new Date(host_check.checked_at) : null);
  return {
    status: host_verified_at === null ? 'pending' : 'verified',
    ...record,
    checked_at: checkedAt?.toISOString() ?? null,
    problem: host_verified_at === null ? (host_check?.problem ?? null) : null,
  };
}

/** An app as the API returns it, with its full key (`api_key`) or a preview (`api_key_preview`). */
export function appAnswer(
  row: AppRow,
  rules: HostRules,
  key: { api_key: string } | { api_key_preview: string },
): Readonly<Record<string, unknown>> {
  return {
    id: row.id,
    organization_id: row.organization_id,
    name: row.name,
    ...key,
    host: row.host,
    host_verification: hostVerification(row, rules),
    ios: row.ios,
    android: row.android,
    fallback_url: row.fallback_url,
    allowed_destination_hosts: row.allowed_destination_hosts,
    pages: row.pages,
    // Settings introduced after the app was created have their default.
    settings: { ...defaultSettings, ...row.settings },
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

const text = Type.String();
const shared = {
  id: text,
  organization_id: text,
  name: text,
  host: Type.String({ description: 'Host name of the short links, without a scheme.' }),
  host_verification: Type.Object(
    {
      status: Type.Unsafe<'verified' | 'pending'>({ type: 'string', enum: ['verified', 'pending'] }),
      record_name: nullable(
        Type.String({
          description: 'Name of the DNS TXT record that proves control of the host. null: no record is needed.',
        }),
      ),
      record_value: nullable(text),
      checked_at: nullable(
        Type.String({ format: 'date-time', description: 'Time of the verification or of the last attempt.' }),
      ),
      problem: Type.Unsafe<HostProblem | null>({
        type: ['string', 'null'],
        enum: ['record_missing', 'record_differs', 'dns_unavailable', 'taken', null],
        description: 'Why the last attempt failed.',
      }),
    },
    {
      title: 'HostVerification',
      description:
        'Links are served on the host only while its status is verified. Hosts under the service’s own domain are always verified.',
    },
  ),
  ios: nullable(
    Type.Object({ bundle_id: text, team_id: nullable(text), app_store_id: nullable(text), uri_scheme: nullable(text) }),
  ),
  android: nullable(
    Type.Object({ package_name: text, sha256_cert_fingerprints: Type.Array(text), uri_scheme: nullable(text) }),
  ),
  fallback_url: nullable(text),
  allowed_destination_hosts: Type.Array(text),
  settings: Type.Object(
    {
      attribution_window_hours: Type.Integer(),
      probabilistic_window_hours: Type.Integer(),
      min_confidence: Type.Number(),
      privacy_mode: Type.Unsafe<AppSettings['privacy_mode']>({
        type: 'string',
        enum: ['anonymize_ip', 'full_ip', 'no_ip'],
      }),
      conversion_events: Type.Array(text),
      tap_page: Type.Unsafe<TapPageMode>({ type: 'string', enum: [...tapPageModes] }),
      query_merge: Type.Unsafe<QueryMerge>({ type: 'string', enum: [...queryMerges] }),
      sdk_links: Type.Boolean({ description: 'Whether the API key may create links.' }),
      codes_ignore_case: Type.Boolean({ description: 'Whether short codes are case-insensitive.' }),
      firebase_links: nullable(
        Type.Object(
          { hosts: Type.Array(text), prefixes: Type.Array(text) },
          { description: 'Hosts to which Firebase long links may lead, and their paths besides /. null: off.' },
        ),
      ),
      migration: storedMigrationSchema,
    },
    { title: 'AppSettings' },
  ),
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' }),
};

/** Omitted from lists because they are long. */
const pages = nullable(
  Type.Object(
    { not_found: nullable(text), expired: nullable(text) },
    { description: 'Custom HTML pages for browsers.' },
  ),
);

export const appSchema = Type.Object({ ...shared, pages, api_key: text }, { title: 'AppWithKey' });
/** The answer for one app: the full key for callers who may use it, a preview for viewers. */
export const readAppSchema = Type.Object(
  {
    ...shared,
    pages,
    api_key: Type.Optional(Type.String({ description: 'Shown to owners and members.' })),
    api_key_preview: Type.Optional(Type.String({ description: 'Shown to viewers instead of api_key.' })),
  },
  { title: 'App' },
);
export const listedAppSchema = Type.Object({ ...shared, api_key_preview: text }, { title: 'ListedApp' });
export const appParams = Type.Object({ id: Type.String({ examples: ['app_01j9z3k4m5n6p7q8r9s0t1v2w3'] }) });

const example = {
  id: 'app_01j9z3k4m5n6p7q8r9s0t1v2w3',
  organization_id: 'org_01j9z3k4m5n6p7q8r9s0t1v2w3',
  name: 'Shop',
  host: 'go.example.com',
  host_verification: {
    status: 'pending',
    record_name: '_signpost.go.example.com',
    record_value: 'signpost-app=app_01j9z3k4m5n6p7q8r9s0t1v2w3',
    checked_at: '2026-01-15T09:30:00.000Z',
    problem: 'record_missing',
  },
  ios: { bundle_id: 'com.example.shop', team_id: 'ABCDE12345', app_store_id: '123456789', uri_scheme: 'shop' },
  android: { package_name: 'com.example.shop', sha256_cert_fingerprints: [], uri_scheme: 'shop' },
  fallback_url: 'https://www.example.com/',
  allowed_destination_hosts: ['www.example.com'],
  settings: {
    attribution_window_hours: 168,
    probabilistic_window_hours: 6,
    min_confidence: 0.6,
    privacy_mode: 'anonymize_ip',
    conversion_events: ['purchase'],
    tap_page: 'ios',
    query_merge: 'destination',
    sdk_links: true,
    codes_ignore_case: false,
    firebase_links: null,
    migration: null,
  },
  created_at: '2026-01-15T09:30:00.000Z',
  updated_at: '2026-01-15T09:30:00.000Z',
};
export const appExample = { ...example, pages: null, api_key: 'lk_exampleexampleexampleexampleexample0000' };
export const listedAppExample = { ...example, api_key_preview: 'lk_exam…0000' };
