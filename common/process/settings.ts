/** Every setting of every process: a row with its name, type, default, bounds and one sentence. */
import { defaultInstallation, installationShape } from '#common/log/log-names.ts';
import { baseUrlOf, dnsServerOf, domainOf, parseNetwork, parseOrigin } from './config-formats.ts';

export interface Setting<T> {
  readonly about: string;
  readonly fallback: T;
  /** Turns the text of the environment into a value, or says in words what is wrong with it. */
  readonly parse: (text: string) => T | Fault;
  readonly isSecret?: boolean;
}

export class Fault {
  readonly reason: string;
  constructor(reason: string) {
    this.reason = reason;
  }
}

function integer(fallback: number, min: number, max: number, about: string): Setting<number> {
  return {
    about,
    fallback,
    parse: (text) => {
      const value = Number(text);
      if (Number.isInteger(value) && value >= min && value <= max) return value;
      return new Fault(`must be a whole number from ${min} to ${max}`);
    },
  };
}

function port(fallback: number, about: string): Setting<number> {
  return integer(fallback, 0, 65_535, about);
}

function text(fallback: string, about: string, isSecret = false): Setting<string> {
  return { about, fallback, isSecret, parse: (value) => value };
}

function choice<const T extends string>(fallback: T, choices: readonly T[], about: string): Setting<T> {
  return {
    about,
    fallback,
    parse: (value) => choices.find((one) => one === value) ?? new Fault(`must be one of ${choices.join(', ')}`),
  };
}

function flag(fallback: boolean, about: string): Setting<boolean> {
  return {
    about,
    fallback,
    parse: (value) => (value === 'true' ? true : value === 'false' ? false : new Fault('must be true or false')),
  };
}

/** Text of a form; `of` gives null for what does not have it. */
function form(fallback: string, of: (text: string) => string | null, what: string, about: string): Setting<string> {
  return { about, fallback, parse: (value) => of(value) ?? new Fault(`must be ${what}`) };
}

/** Text of at least so many characters. */
function secret(charsMin: number, about: string): Setting<string> {
  return {
    about,
    fallback: '',
    isSecret: true,
    parse: (value) => (value.length >= charsMin ? value : new Fault(`must have at least ${charsMin} characters`)),
  };
}

/** A comma-separated list of names that is not empty by itself: `none` makes it so. */
function names(fallback: string[], about: string): Setting<string[]> {
  return {
    about,
    fallback,
    parse: (value) => {
      if (value.trim() === 'none') return [];
      const given = value.split(',').map((name) => name.trim());
      return given.every((name) => /^[^\s=&]{1,64}$/.test(name))
        ? given
        : new Fault('must be names with commas between them, or none');
    },
  };
}

/** A comma-separated list; empty text is an empty list. */
function list(about: string, of: (entry: string) => string | null = (entry) => entry, what = ''): Setting<string[]> {
  return {
    about,
    fallback: [],
    parse: (value) => {
      const entries = value.split(',').map((entry) => entry.trim());
      const values = entries.filter((entry) => entry !== '').map(of);
      return values.includes(null) ? new Fault(`must hold only ${what}`) : values.filter((one) => one !== null);
    },
  };
}

function url(fallback: string, schemes: readonly string[], about: string): Setting<string> {
  return {
    about,
    fallback,
    isSecret: true,
    parse: (value) => {
      const scheme = URL.canParse(value) ? new URL(value).protocol.slice(0, -1) : '';
      return schemes.includes(scheme) ? value : new Fault(`must be a URL with ${schemes.join(' or ')}://`);
    },
  };
}

function ownDatabase(whose: string): Setting<string> {
  return url('', ['postgres', 'postgresql'], `Postgres for ${whose}; empty takes DATABASE_URL.`);
}

export const settings = {
  DATA_DIR: text('.data', 'Folder for everything that is kept on this machine.'),
  INSTANCE: text('', 'Name of this process, unique on its machine: its journal folder and its label in the log.'),
  LOG_LEVEL: choice('info', ['debug', 'info', 'warn', 'error', 'silent'], 'Least serious line that is written.'),

  DATABASE_URL: url(
    '',
    ['postgres', 'postgresql'],
    'Postgres, as the owner of the schema. Without it, npm start runs one of its own.',
  ),
  API_DATABASE_URL: ownDatabase('the API, as signpost_api_process'),
  GATEWAY_DATABASE_URL: ownDatabase('the SDK endpoints, as signpost_gateway'),
  INGEST_DATABASE_URL: ownDatabase('ingest, as signpost_ingest'),
  EDGE_DATABASE_URL: ownDatabase('redirectors, as signpost_redirector'),
  REDIS_URL: url('', ['redis', 'rediss'], 'Redis or Valkey. Without it, npm start runs one of its own.'),
  NATS_URL: url('', ['nats', 'tls'], 'NATS with JetStream. Without it, npm start runs one of its own.'),
  CLICKHOUSE_URL: url('', ['http', 'https'], 'ClickHouse over HTTP, user, password and database in the URL.'),

  API_HOST: text('127.0.0.1', 'Address the API listens on.'),
  API_PORT: port(8443, 'Port of the API (HTTPS).'),
  API_HTTP_PORT: port(0, 'Port without TLS for a proxy listed in TRUSTED_PROXIES; 0 opens none.'),
  API_PUBLIC_URL: form(
    '',
    baseUrlOf,
    'a URL with http:// or https:// that ends in /v1',
    'Base URL callers use, ending in /v1; made from host and port if empty.',
  ),
  REDIRECTOR_HOST: text('127.0.0.1', 'Address the redirector listens on.'),
  REDIRECTOR_HTTP_PORT: port(8080, 'Port of the redirector without TLS; 0 opens none.'),
  REDIRECTOR_HTTPS_PORT: port(8444, 'Port of the redirector with TLS; 0 opens none.'),
  REDIRECTOR_PROCESSES: integer(0, 0, 256, 'How many redirectors share the ports; 0 means one per core.'),
  METRICS_HOST: text('127.0.0.1', 'Address /metrics, /healthz and /readyz of every process listen on.'),
  METRICS_PORT: port(
    0,
    'Port of /metrics, /healthz and /readyz; 0 takes any free one. npm start gives its processes this port and the next ones.',
  ),
  TLS_CERT_FILE: text('', 'Certificate chain (PEM) of the HTTPS ports.'),
  TLS_KEY_FILE: text('', 'Private key (PEM) of the HTTPS ports.'),
  METRICS_HOST_NAMES: list('Host names that /metrics may be asked by, besides localhost, METRICS_HOST and addresses.'),
  HSTS_SECONDS: integer(
    0,
    0,
    63_072_000,
    'Seconds for which browsers must use HTTPS only (Strict-Transport-Security); 0: the header is not sent.',
  ),
  TRUSTED_PROXIES: list(
    'Networks (CIDR) whose X-Forwarded-* headers are believed.',
    parseNetwork,
    'addresses and networks (CIDR)',
  ),
  CORS_ORIGINS: list(
    'Origins that may call the dashboard endpoints from a browser.',
    parseOrigin,
    'origins (scheme://host or scheme://host:port)',
  ),

  LOST_API_KEYS: choice(
    'refuse',
    ['refuse', 'replace'],
    'What npm start does when SECRET_KEY can decrypt some API keys no more: refuse, or give these apps new ones.',
  ),
  SECRET_KEY: text('', 'Keys that encrypt and sign, newest first: id:base64 of 32 bytes, comma-separated.', true),
  ADDRESS_KEY: secret(
    32,
    'Key under which edges hash IP addresses before they write them; the same on every edge. npm start makes one.',
  ),
  DROPPED_QUERY_PARAMETERS: names(
    ['token', 'password', 'email', 'code', 'signature'],
    'Query parameters of clicks that are passed on and never recorded, whatever their case; none records all.',
  ),
  ADMIN_EMAIL: text('', 'E-mail of the first user that npm start makes.'),
  ADMIN_PASSWORD: text('', 'Password of the first user; made up and printed once if empty.', true),
  SHORT_LINK_DOMAIN: form(
    'localhost',
    domainOf,
    'a domain name',
    'Domain under which apps get their short-link hosts.',
  ),
  SHORT_LINK_SCHEME: choice(
    'https',
    ['https', 'http'],
    'Scheme of the short links that are handed out. npm start takes http while SHORT_LINK_DOMAIN is localhost.',
  ),
  SHORT_LINK_PORT: port(
    0,
    'Port in the short links that are handed out; 0 names none. npm start takes the redirector’s while SHORT_LINK_DOMAIN is localhost.',
  ),
  DNS_SERVERS: list(
    'DNS servers (address or address:port) that are asked for the proof of a host; the system’s if empty.',
    dnsServerOf,
    'addresses of DNS servers',
  ),

  OAUTH_GOOGLE_CLIENT_ID: text('', 'Client id for login with Google; empty turns it off.'),
  OAUTH_GOOGLE_CLIENT_SECRET: text('', 'Client secret for login with Google.', true),
  OAUTH_GOOGLE_ISSUER: text('https://accounts.google.com', 'OpenID Connect issuer behind the provider google.'),
  OAUTH_GITHUB_CLIENT_ID: text('', 'Client id for login with GitHub; empty turns it off.'),
  OAUTH_GITHUB_CLIENT_SECRET: text('', 'Client secret for login with GitHub.', true),
  OAUTH_GITHUB_URL: text('https://github.com', 'Base URL of the provider github (its Enterprise Server, say).'),
  OAUTH_GITHUB_API_URL: text('https://api.github.com', 'Base URL of the API of the provider github.'),
  OAUTH_REDIRECT_URIS: list('Addresses an OAuth login may return to; the first is the default.'),
  OAUTH_SIGNUP: flag(false, 'Whether an OAuth login without an account makes one.'),

  RATE_LIMIT_AUTH: integer(5, 1, 1_000_000, 'Authentication requests a minute per IP.'),
  LOGIN_FAILURES_FREE: integer(
    10,
    1,
    1_000_000,
    'Wrong passwords for one account after which each further attempt waits twice as long as the one before.',
  ),
  RATE_LIMIT_LINKS: integer(30, 1, 1_000_000, 'Link creations a minute per user (API key: per app and IP).'),
  RATE_LIMIT_MATCH: integer(1000, 1, 10_000_000, 'POST /sdk/match a minute per app.'),
  RATE_LIMIT_EVENTS: integer(500, 1, 10_000_000, 'POST /sdk/events a minute per app.'),
  RATE_LIMIT_GENERAL: integer(100, 1, 10_000_000, 'All other requests a minute per IP.'),

  INSTALLATION: form(
    defaultInstallation,
    (text) => (installationShape.test(text) ? text : null),
    'lower-case letters, digits and hyphens, at most 32',
    'Name of this installation in NATS: its stream, its subjects. Two that share a server need two names.',
  ),
  LOG_PARTITIONS: integer(1, 1, 64, 'Partitions of the log per kind of record; one ingest owns each.'),
  LOG_REPLICAS: choice('1', ['1', '3', '5'], 'Copies of the log that a NATS cluster keeps.'),
  LOG_BYTES_MAX: integer(10_737_418_240, 16_777_216, Number.MAX_SAFE_INTEGER, 'Size at which the log takes no more.'),
  JOURNAL_SYNC: choice('after_answer', ['after_answer', 'before_answer'], 'Whether an answer waits for fdatasync.'),
  JOURNAL_BYTES_MAX: integer(
    8_589_934_592,
    1_048_576,
    Number.MAX_SAFE_INTEGER,
    'Size at which a journal takes no more.',
  ),
  JOURNAL_SEGMENT_BYTES: integer(67_108_864, 65_536, 1_073_741_824, 'Size at which a journal begins a new file.'),

  INGEST_BATCH_ROWS: integer(20_000, 1, 100_000, 'Most rows of one insert.'),
  INGEST_BATCH_BYTES: integer(8_388_608, 65_536, 10_000_000, 'Most bytes of one insert.'),
  INGEST_FLUSH_INTERVAL_MS: integer(
    750,
    10,
    60_000,
    'Longest a record waits for its batch to fill; half of it while there is little to store.',
  ),
  LEASE_SECONDS: integer(6, 1, 300, 'How long an ingest that died keeps its partitions: others take them after it.'),
  RETENTION_DAYS: integer(
    730,
    1,
    36_500,
    'Age in days at which clicks, installs and events are dropped, with what Postgres keeps of installs.',
  ),
  LINK_CACHE_ENTRIES: integer(200_000, 100, 10_000_000, 'Most links that a redirector keeps in memory.'),
  LINK_CACHE_BYTES: integer(
    134_217_728,
    1_048_576,
    17_179_869_184,
    'Most bytes of links that a redirector keeps in memory.',
  ),
  GEOIP_DB: text('', 'MaxMind-format country database; empty takes the one the package ships.'),
} as const satisfies Record<string, Setting<unknown>>;

type Values = { [K in keyof typeof settings]: (typeof settings)[K] extends Setting<infer T> ? T : never };
export type SettingName = keyof Values;
export type Config = Readonly<Values>;
