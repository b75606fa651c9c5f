/** The processes that run on one machine, and the settings of each. Pure function: tested without starting anything. */
import { cpus } from 'node:os';
import { join } from 'node:path';
import type { ProcessRole } from '#common/process/config-roles.ts';
import type { Config, SettingName } from '#common/process/settings.ts';

/** Postgres, with one role per process. */
export interface DatabaseUrls {
  readonly api: string;
  readonly gateway: string;
  readonly ingest: string;
  readonly redirector: string;
  readonly webhooks: string;
}

/** URLs of the stores for each role. An external server has one URL for all roles. */
export interface StoreUrls {
  readonly database: DatabaseUrls;
  readonly nats: {
    readonly publisher: string;
    readonly ingest: string;
    readonly gateway: string;
    readonly api: string;
  };
  readonly redis: { readonly signpost: string; readonly redirector: string };
  readonly clickhouse: { readonly signpost: string; readonly reader: string };
}

export interface LaunchFacts {
  readonly dataDir: string;
  readonly stores: StoreUrls;
  readonly secretKey: string;
  readonly addressKey: string;
  readonly certFile: string;
  readonly keyFile: string;
  readonly apiPort: number;
}

export interface ProcessPlan {
  readonly name: string;
  readonly role: ProcessRole;
  /** Path under dist/. */
  readonly entry: string;
  readonly settings: Partial<Record<SettingName, string>>;
}

export function redirectorCount(config: Pick<Config, 'REDIRECTOR_PROCESSES'>, cores = cpus().length): number {
  return config.REDIRECTOR_PROCESSES === 0 ? Math.max(1, cores) : config.REDIRECTOR_PROCESSES;
}

/** Links on localhost use the port of this machine's redirectors, so that they work when clicked. */
function localLinks(config: Config): ProcessPlan['settings'] {
  if (config.SHORT_LINK_DOMAIN !== 'localhost' || config.SHORT_LINK_PORT !== 0) return {};
  const { REDIRECTOR_HTTP_PORT: http, REDIRECTOR_HTTPS_PORT: https } = config;
  if (http > 0) return { SHORT_LINK_SCHEME: 'http', SHORT_LINK_PORT: String(http) };
  return { SHORT_LINK_SCHEME: 'https', SHORT_LINK_PORT: String(https) };
}

/**
 * In reverse order of stopping: processes that accept requests stop first, and those that move their records stop last.
 */
export function processPlans(config: Config, facts: LaunchFacts): ProcessPlan[] {
  const { database, nats, redis, clickhouse } = facts.stores;
  const edge = { DATA_DIR: facts.dataDir, TLS_CERT_FILE: facts.certFile, TLS_KEY_FILE: facts.keyFile };
  const ingest = {
    DATA_DIR: facts.dataDir,
    DATABASE_URL: '',
    INGEST_DATABASE_URL: database.ingest,
    NATS_URL: nats.ingest,
    REDIS_URL: redis.signpost,
    CLICKHOUSE_URL: clickhouse.signpost,
  };
  const origin = {
    ...edge,
    DATABASE_URL: '',
    API_DATABASE_URL: database.api,
    GATEWAY_DATABASE_URL: database.gateway,
    NATS_URL: nats.gateway,
    API_NATS_URL: nats.api,
    REDIS_URL: redis.signpost,
    CLICKHOUSE_URL: clickhouse.reader,
    SECRET_KEY: facts.secretKey,
    ADDRESS_KEY: facts.addressKey,
    API_PORT: String(facts.apiPort),
    ...localLinks(config),
  };
  const redirector = {
    ...edge,
    DATABASE_URL: '',
    EDGE_DATABASE_URL: database.redirector,
    REDIS_URL: redis.redirector,
    ADDRESS_KEY: facts.addressKey,
    ...localLinks(config),
  };
  const webhooks = {
    DATA_DIR: facts.dataDir,
    DATABASE_URL: '',
    WEBHOOKS_DATABASE_URL: database.webhooks,
    CLICKHOUSE_URL: clickhouse.reader,
    SECRET_KEY: facts.secretKey,
    ...localLinks(config),
  };
  const plan = (name: string, role: ProcessRole, entry: string, settings: ProcessPlan['settings']): ProcessPlan => {
    return { name, role, entry, settings: { ...settings, METRICS_PORT: '0', INSTANCE: name } };
  };
  const redirectors = Array.from({ length: redirectorCount(config) }, (_, n) => `redirector-${n}`);
  return [
    plan('ingest', 'ingest', join('ingest', 'main.js'), ingest),
    plan('publisher', 'publisher', join('publisher', 'main.js'), {
      DATA_DIR: facts.dataDir,
      NATS_URL: nats.publisher,
    }),
    plan('origin', 'origin', join('deploy', 'local', 'origin.js'), origin),
    ...redirectors.map((name) => plan(name, 'redirector', join('redirector', 'main.js'), redirector)),
    // Last, so that the others keep their metrics ports.
    plan('webhooks', 'webhooks', join('webhooks', 'main.js'), webhooks),
  ];
}
