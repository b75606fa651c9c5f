/**
 * Which settings each process reads. A process gets only these, so a secret is only where it is used; and the code of a
 * process can't read another setting, because its type lacks it.
 */
import type { Config, SettingName } from './settings.ts';

const metrics = ['METRICS_HOST', 'METRICS_HOST_NAMES', 'METRICS_PORT'] as const;
const everyProcess = ['DATA_DIR', 'INSTANCE', 'LOG_LEVEL', ...metrics] as const;
/** Settings of the processes that handle records, and of those that answer requests. */
const traces = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_TRACES_SAMPLER_ARG'] as const;
const journal = ['JOURNAL_SYNC', 'JOURNAL_BYTES_MAX', 'JOURNAL_SEGMENT_BYTES'] as const;
const links = ['LINK_CACHE_ENTRIES', 'LINK_CACHE_BYTES'] as const;
const shortLinks = ['SHORT_LINK_SCHEME', 'SHORT_LINK_PORT'] as const;
const limits = [
  ...(['RATE_LIMIT_AUTH', 'RATE_LIMIT_LINKS', 'RATE_LIMIT_MATCH', 'RATE_LIMIT_EVENTS', 'RATE_LIMIT_GENERAL'] as const),
] as const;
/** What determines how an edge records a person's data. */
const privacy = ['ADDRESS_KEY', 'DROPPED_QUERY_PARAMETERS'] as const;
const tls = ['TLS_CERT_FILE', 'TLS_KEY_FILE', 'TRUSTED_PROXIES', 'PROXY_SECRET', 'HSTS_SECONDS'] as const;
const apiServer = ['API_HOST', 'API_PORT', 'API_HTTP_PORT', 'CORS_ORIGINS', ...tls] as const;
const oauth = [
  ...(['OAUTH_GOOGLE_CLIENT_ID', 'OAUTH_GOOGLE_CLIENT_SECRET', 'OAUTH_GOOGLE_ISSUER'] as const),
  ...(['OAUTH_GITHUB_CLIENT_ID', 'OAUTH_GITHUB_CLIENT_SECRET', 'OAUTH_GITHUB_URL', 'OAUTH_GITHUB_API_URL'] as const),
  ...(['OAUTH_REDIRECT_URIS', 'OAUTH_SIGNUP'] as const),
] as const;
const mail = ['SMTP_URL', 'SMTP_TLS', 'MAIL_FROM'] as const;
const webhooks = ['WEBHOOK_HTTP', 'WEBHOOK_ALLOWED_NETWORKS'] as const;
const api = [
  // API_DATABASE_URL if set, and so on; DATABASE_URL is then not passed on.
  ...(['API_DATABASE_URL', 'DATABASE_URL', 'REDIS_URL', 'CLICKHOUSE_URL', 'SECRET_KEY'] as const),
  ...(['API_NATS_URL', 'NATS_URL', 'INSTALLATION'] as const),
  ...(['API_PUBLIC_URL', 'SHORT_LINK_DOMAIN', 'RETENTION_DAYS', 'DNS_SERVERS', 'LOGIN_FAILURES_FREE'] as const),
  ...(['APPLE_CDN_URL', 'BRANCH_API_URL', 'GEOIP_DB'] as const),
  ...mail,
  ...webhooks,
  ...shortLinks,
  ...apiServer,
  ...limits,
  ...traces,
  ...oauth,
] as const;
const gateway = [
  ...([
    'GATEWAY_DATABASE_URL',
    'DATABASE_URL',
    'REDIS_URL',
    'NATS_URL',
    'INSTALLATION',
    'SECRET_KEY',
    'LOG_PARTITIONS',
    'RETENTION_DAYS',
  ] as const),
  ...privacy,
  ...shortLinks,
  ...apiServer,
  ...limits,
  ...traces,
  ...journal,
  ...links,
] as const;
const redirector = [
  ...(['EDGE_DATABASE_URL', 'DATABASE_URL', 'REDIS_URL', 'LOG_PARTITIONS', 'MACHINE_NAME'] as const),
  ...(['REDIRECTOR_HOST', 'REDIRECTOR_HTTP_PORT', 'REDIRECTOR_HTTPS_PORT', 'GEOIP_DB'] as const),
  'APPLE_ATTRIBUTION_KEYS',
  ...privacy,
  ...shortLinks,
  ...traces,
  ...tls,
  ...journal,
  ...links,
] as const;
const ingest = [
  ...(['INGEST_DATABASE_URL', 'DATABASE_URL', 'NATS_URL', 'INSTALLATION', 'CLICKHOUSE_URL', 'REDIS_URL'] as const),
  ...(['MACHINE_NAME', 'LOG_PARTITIONS', 'LOG_REPLICAS', 'LOG_BYTES_MAX', 'LEASE_SECONDS', 'GEOIP_DB'] as const),
  ...traces,
  ...(['INGEST_BATCH_ROWS', 'INGEST_BATCH_BYTES', 'INGEST_FLUSH_INTERVAL_MS'] as const),
] as const;

export const settingsOfRole = {
  api: [...everyProcess, ...api],
  gateway: [...everyProcess, ...gateway],
  /** The API and the SDK endpoints on one port. */
  origin: [...everyProcess, ...api, ...gateway],
  redirector: [...everyProcess, ...redirector],
  ingest: [...everyProcess, ...ingest],
  publisher: [...everyProcess, ...traces, 'MACHINE_NAME', 'NATS_URL', 'INSTALLATION', 'LOG_BYTES_MAX', 'LOG_REPLICAS'],
  webhooks: [
    ...everyProcess,
    ...webhooks,
    ...shortLinks,
    ...(['WEBHOOKS_DATABASE_URL', 'DATABASE_URL', 'CLICKHOUSE_URL', 'SECRET_KEY', 'DNS_SERVERS'] as const),
  ],
} as const satisfies Record<string, readonly SettingName[]>;

/** Which settings the tools read that end by themselves. `npm start` reads all. */
export const settingsOfTool = {
  migrate: ['DATABASE_URL', 'CLICKHOUSE_URL', 'RETENTION_DAYS'],
  admin: [
    ...(['DATA_DIR', 'DATABASE_URL', 'REDIS_URL', 'NATS_URL', 'CLICKHOUSE_URL', 'INSTALLATION'] as const),
    ...(['SECRET_KEY', 'ADDRESS_KEY', 'ADMIN_EMAIL', 'ADMIN_PASSWORD', 'GEOIP_DB'] as const),
  ],
} as const satisfies Record<string, readonly SettingName[]>;

export type ProcessRole = keyof typeof settingsOfRole;
export type Tool = keyof typeof settingsOfTool;
export type ToolConfig<One extends Tool> = Pick<Config, (typeof settingsOfTool)[One][number]>;
/** The settings of a process; for several processes, those that all of them have. */
export type ProcessConfig<Role extends ProcessRole> = Pick<Config, SettingOfAll<Role>>;

/** An intersection of the names, computed by using them in a contravariant position. */
type SettingOfAll<Role extends ProcessRole> = (
  Role extends unknown
    ? (names: (typeof settingsOfRole)[Role][number]) => void
    : never
) extends (names: infer Names extends SettingName) => void
  ? Names
  : never;
