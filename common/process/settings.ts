/** Every setting of every process: a row with its name, type, default, bounds and one sentence. */
import { defaultInstallation, installationShape } from '#common/log/log-names.ts';
import {
  appleKeyOf,
  baseUrlOf,
  dnsServerOf,
  domainOf,
  headersOf,
  mailAddressOf,
  parseNetwork,
  parseOrigin,
  redisRefusal,
} from './config-formats.ts';
import {
  choice,
  Fault,
  flag,
  form,
  fraction,
  integer,
  list,
  names,
  ownDatabase,
  plainUrl,
  port,
  type Setting,
  secret,
  text,
  url,
  urls,
} from './setting-kinds.ts';

export const settings = {
  DATA_DIR: text('.data', 'Folder for all data that is stored on this machine.'),
  INSTANCE: text('', 'Name of this process, unique on its machine: its journal folder and its label in the log.'),
  MACHINE_NAME: form(
    '',
    (text) => (/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(text) ? text : null),
    'letters, digits, dots, hyphens and underscores, at most 63',
    'Name of this machine, unique in the installation; if empty, the host name. A second machine with the same name refuses to start.',
  ),
  LOG_LEVEL: choice('info', ['debug', 'info', 'warn', 'error', 'silent'], 'Lowest log level that is written.'),

  DATABASE_URL: urls(
    '',
    ['postgres', 'postgresql'],
    'Postgres URL, as the owner of the schema. With several comma-separated URLs, the server that accepts writes is used. If empty, npm start runs a local server.',
  ),
  API_DATABASE_URL: ownDatabase('the API, as signpost_api_process'),
  GATEWAY_DATABASE_URL: ownDatabase('the SDK endpoints, as signpost_gateway'),
  INGEST_DATABASE_URL: ownDatabase('ingest, as signpost_ingest'),
  EDGE_DATABASE_URL: ownDatabase('redirectors, as signpost_redirector'),
  WEBHOOKS_DATABASE_URL: ownDatabase('webhooks, as signpost_webhooks'),
  REDIS_URL: url('', ['redis', 'rediss'], 'Redis or Valkey. If empty, npm start runs a local server.', redisRefusal),
  REDIS_STAND_IN: flag(false, 'Whether npm start may use its stand-in for Redis on a real SHORT_LINK_DOMAIN.'),
  NATS_URL: urls(
    '',
    ['nats', 'tls'],
    'URL of NATS with JetStream, or several comma-separated URLs of one cluster. If empty, npm start runs a local server.',
  ),
  API_NATS_URL: urls(
    '',
    ['nats', 'tls'],
    'NATS URL for the live feed of the API, with a user that may only read the log; if empty, NATS_URL is used. Without either, there is no live feed.',
  ),
  CLICKHOUSE_URL: urls(
    '',
    ['http', 'https'],
    'ClickHouse HTTP URL, with user, password and database. With several comma-separated replicas, ingest uses only the first; the API fails over to the next when one refuses connections.',
  ),

  API_HOST: text('127.0.0.1', 'Address on which the API listens.'),
  API_PORT: port(8443, 'Port of the API (HTTPS).'),
  API_HTTP_PORT: port(0, 'HTTP port for a proxy listed in TRUSTED_PROXIES; 0 disables it.'),
  API_PUBLIC_URL: form(
    '',
    baseUrlOf,
    'a URL with http:// or https:// that ends in /v1',
    'Base URL of the API for clients, ending in /v1; derived from host and port if empty.',
  ),
  REDIRECTOR_HOST: text('127.0.0.1', 'Address on which the redirector listens.'),
  REDIRECTOR_HTTP_PORT: port(8080, 'HTTP port of the redirector; 0 disables it.'),
  REDIRECTOR_HTTPS_PORT: port(8444, 'HTTPS port of the redirector; 0 disables it.'),
  REDIRECTOR_PROCESSES: integer(0, 0, 256, 'Number of redirectors that share the ports; 0 means one per core.'),
  METRICS_HOST: text('127.0.0.1', 'Address on which /metrics, /healthz and /readyz of every process listen.'),
  METRICS_PORT: port(
    0,
    'Port of /metrics, /healthz and /readyz; 0 uses any free port. npm start gives its processes this port and the following ones.',
  ),
  OTEL_EXPORTER_OTLP_ENDPOINT: plainUrl(
    '',
    'OpenTelemetry collector (OTLP over HTTP) to which traces are sent, such as http://127.0.0.1:4318; if empty, there are no traces.',
  ),
  OTEL_EXPORTER_OTLP_HEADERS: {
    about: 'Headers for the collector, as name=value separated by commas, values percent-encoded.',
    fallback: '',
    isSecret: true,
    parse: (text): string | Fault =>
      headersOf(text) === null ? new Fault('must be name=value, separated by commas') : text,
  },
  OTEL_TRACES_SAMPLER_ARG: fraction(
    0.01,
    'Fraction of clicks and of requests that are traced, from 0 to 1; use the same value in every process, so that traces of clicks are complete.',
  ),
  TLS_CERT_FILE: list(
    'Certificate chain (PEM) of the HTTPS ports, or several, separated by commas: the first is the default, the others are selected by host name (SNI). Changed files are loaded within a minute, or on SIGHUP.',
  ),
  TLS_KEY_FILE: list('Private key (PEM) of each certificate in TLS_CERT_FILE, in the same order.'),
  METRICS_HOST_NAMES: list(
    'Host names that may be used to request /metrics, besides localhost, METRICS_HOST and IP addresses.',
  ),
  HSTS_SECONDS: integer(
    0,
    0,
    63_072_000,
    'Seconds for which browsers must use HTTPS only (Strict-Transport-Security); 0 omits the header.',
  ),
  TRUSTED_PROXIES: list(
    'Networks (CIDR) whose X-Forwarded-* headers are trusted.',
    parseNetwork,
    'addresses and networks (CIDR)',
  ),
  PROXY_SECRET: secret(
    32,
    'What a trusted proxy sends as X-Signpost-Proxy; if set, its X-Forwarded-* headers are ignored without it. Set it if others can connect from the addresses of TRUSTED_PROXIES, such as other users of the machine.',
  ),
  CORS_ORIGINS: list(
    'Origins that may call the dashboard endpoints from a browser.',
    parseOrigin,
    'origins (scheme://host or scheme://host:port)',
  ),

  LOST_API_KEYS: text(
    'refuse',
    'What npm start does if SECRET_KEY cannot decrypt what is stored: refuse to start, or, with replace:N, give the N apps with lost API keys new ones.',
  ),
  SECRET_KEY: text('', 'Keys for encrypting and signing, newest first, comma-separated: id:base64 of 32 bytes.', true),
  ADDRESS_KEY: secret(
    32,
    'Key with which edge processes hash IP addresses before writing them; the same on every machine. npm start generates one.',
  ),
  DROPPED_QUERY_PARAMETERS: names(
    ['token', 'password', 'email', 'code', 'signature'],
    'Query parameters of clicks that are passed on but never recorded (case-insensitive); none records all.',
  ),
  ADMIN_EMAIL: text('', 'E-mail address of the first user, created by npm start.'),
  ADMIN_PASSWORD: text('', 'Password of the first user; if empty, generated and kept in login.json.', true),
  SHORT_LINK_DOMAIN: form(
    'localhost',
    domainOf,
    'a domain name',
    'Domain under which apps get their short-link hosts.',
  ),
  SHORT_LINK_SCHEME: choice(
    'https',
    ['https', 'http'],
    'Scheme of short links in responses. npm start uses http if SHORT_LINK_DOMAIN is localhost.',
  ),
  SHORT_LINK_PORT: port(
    0,
    "Port of short links in responses; 0 omits it. npm start uses the redirector's if SHORT_LINK_DOMAIN is localhost.",
  ),
  DNS_SERVERS: list(
    "DNS servers (address or address:port) for verifying hosts, webhooks, checks of association files and requests to old services; if empty, the system's servers are used.",
    dnsServerOf,
    'addresses of DNS servers',
  ),

  OAUTH_GOOGLE_CLIENT_ID: text('', 'Client id for login with Google; empty disables it.'),
  OAUTH_GOOGLE_CLIENT_SECRET: text('', 'Client secret for login with Google.', true),
  OAUTH_GOOGLE_ISSUER: text('https://accounts.google.com', 'OpenID Connect issuer behind the provider google.'),
  OAUTH_GITHUB_CLIENT_ID: text('', 'Client id for login with GitHub; empty disables it.'),
  OAUTH_GITHUB_CLIENT_SECRET: text('', 'Client secret for login with GitHub.', true),
  OAUTH_GITHUB_URL: text(
    'https://github.com',
    'Base URL of the provider github (for example, of a GitHub Enterprise Server).',
  ),
  OAUTH_GITHUB_API_URL: text('https://api.github.com', 'Base URL of the API of the provider github.'),
  OAUTH_REDIRECT_URIS: list('URLs to which an OAuth login may return; the first is the default.'),
  OAUTH_SIGNUP: flag(false, 'Whether an OAuth login creates an account if there is none.'),

  RATE_LIMIT_AUTH: integer(5, 1, 1_000_000, 'Authentication requests per minute per IP.'),
  LOGIN_FAILURES_FREE: integer(
    10,
    1,
    1_000_000,
    'Wrong passwords allowed for one account; after that, the wait doubles with each further attempt.',
  ),
  RATE_LIMIT_LINKS: integer(30, 1, 1_000_000, 'Link creations per minute per user (API key: per app and IP).'),
  RATE_LIMIT_MATCH: integer(1000, 1, 10_000_000, 'POST /sdk/match requests per minute per app; a fifth per network.'),
  RATE_LIMIT_EVENTS: integer(500, 1, 10_000_000, 'POST /sdk/events requests per minute per app; a fifth per network.'),
  RATE_LIMIT_GENERAL: integer(100, 1, 10_000_000, 'All other requests per minute per user or server key, or per IP.'),

  INSTALLATION: form(
    defaultInstallation,
    (text) => (installationShape.test(text) ? text : null),
    'lower-case letters, digits and hyphens, at most 32',
    'Name of this installation in NATS: its stream and its subjects. Installations that share a server need different names.',
  ),
  LOG_PARTITIONS: integer(1, 1, 64, 'Partitions of the log, each owned by one ingest; the same for all processes.'),
  LOG_REPLICAS: choice('1', ['1', '3', '5'], 'Replicas of the log in a NATS cluster.'),
  LOG_BYTES_MAX: integer(
    10_737_418_240,
    16_777_216,
    Number.MAX_SAFE_INTEGER,
    'Maximum size of the log in bytes; at this size, it accepts no more records.',
  ),
  JOURNAL_SYNC: choice('after_answer', ['after_answer', 'before_answer'], 'Whether a response waits for fdatasync.'),
  JOURNAL_BYTES_MAX: integer(
    8_589_934_592,
    1_048_576,
    Number.MAX_SAFE_INTEGER,
    'Maximum size of a journal in bytes; at this size, it accepts no more records.',
  ),
  JOURNAL_SEGMENT_BYTES: integer(67_108_864, 65_536, 1_073_741_824, 'Size at which a journal starts a new file.'),

  INGEST_BATCH_ROWS: integer(20_000, 1, 100_000, 'Maximum rows of one insert.'),
  INGEST_BATCH_BYTES: integer(8_388_608, 65_536, 10_000_000, 'Maximum bytes of one insert.'),
  INGEST_FLUSH_INTERVAL_MS: integer(
    750,
    10,
    60_000,
    'Maximum time that a record waits for its batch to fill; half of that under low load.',
  ),
  LEASE_SECONDS: integer(6, 1, 300, 'Seconds until other ingests take over the partitions of a dead one.'),
  RETENTION_DAYS: integer(
    730,
    1,
    36_500,
    'Age in days at which clicks, installs and events are deleted, including installs in Postgres.',
  ),
  LINK_CACHE_ENTRIES: integer(200_000, 100, 10_000_000, 'Maximum links that a redirector or gateway caches in memory.'),
  LINK_CACHE_BYTES: integer(
    134_217_728,
    1_048_576,
    17_179_869_184,
    'Maximum bytes of links that a redirector or gateway caches in memory.',
  ),
  SMTP_URL: url(
    '',
    ['smtp', 'smtps'],
    'Mail server for invitations and new passwords, with user and password: smtp://user:password@host:587 (STARTTLS), or smtps:// (TLS, port 465). If empty, no mail is sent.',
  ),
  SMTP_TLS: choice(
    'required',
    ['required', 'if_offered'],
    'Whether mail is sent only over TLS. if_offered sends mail and password unencrypted to a server that does not offer STARTTLS: use it only for a server on your own network.',
  ),
  MAIL_FROM: form(
    '',
    mailAddressOf,
    'an address, or a name and an address: Signpost <links@example.com>',
    'Sender of all mail; required with SMTP_URL.',
  ),
  WEBHOOK_HTTP: flag(false, 'Whether URLs of webhooks may start with http://. For development and tests.'),
  WEBHOOK_ALLOWED_NETWORKS: list(
    'Networks (CIDR) that webhooks, checks of association files and requests to old services may reach even though their addresses are not public, such as your own backend.',
    parseNetwork,
    'addresses and networks (CIDR)',
  ),
  APPLE_CDN_URL: plainUrl(
    '',
    "Apple's CDN for association files: https://app-site-association.cdn-apple.com. If empty, checks do not request Apple's copy.",
  ),
  BRANCH_API_URL: plainUrl('https://api2.branch.io', 'Base URL of Branch’s API, for imports with a key.'),
  APPLE_ATTRIBUTION_KEYS: list(
    "Apple's public keys for verifying copies of postbacks, in addition to the built-in keys; a key of the same name replaces the built-in one. Format: name=key, with the key as base64 (DER). The name is the kid of AdAttributionKit, or skadnetwork.",
    appleKeyOf,
    'name=key, the key an elliptic-curve public key as base64 (DER)',
  ),
  GEOIP_DB: text(
    '',
    "GeoIP database in MaxMind's format; if empty, the one in the package is used, which has only countries. With a database that has cities, such as GeoLite2 City, ingest also stores the region and the city of each record.",
  ),
} as const satisfies Record<string, Setting<unknown>>;

type Values = { [K in keyof typeof settings]: (typeof settings)[K] extends Setting<infer T> ? T : never };
export type SettingName = keyof Values;
export type Config = Readonly<Values>;
