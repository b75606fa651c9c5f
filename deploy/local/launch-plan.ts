/** Which processes of ours run on one machine, and what each is told. Pure: tested without starting anything. */
import { cpus } from 'node:os';
import { join } from 'node:path';
import type { Config, SettingName } from '#common/config.ts';

export interface LaunchFacts {
  readonly dataDir: string;
  readonly databaseUrl: string;
  readonly redisUrl: string;
  readonly natsUrl: string;
  readonly clickhouseUrl: string;
  readonly secretKey: string;
  readonly certFile: string;
  readonly keyFile: string;
  readonly apiPort: number;
}

export interface ProcessPlan {
  readonly name: string;
  /** Path under dist/. */
  readonly entry: string;
  readonly settings: Partial<Record<SettingName, string>>;
}

export function redirectorCount(config: Pick<Config, 'REDIRECTOR_PROCESSES'>, cores = cpus().length): number {
  return config.REDIRECTOR_PROCESSES === 0 ? Math.max(1, cores) : config.REDIRECTOR_PROCESSES;
}

/** In the order in which they stop, backwards: what takes requests ends first, what carries their records last. */
export function processPlans(config: Config, facts: LaunchFacts): ProcessPlan[] {
  const common: Partial<Record<SettingName, string>> = {
    DATA_DIR: facts.dataDir,
    DATABASE_URL: facts.databaseUrl,
    REDIS_URL: facts.redisUrl,
    NATS_URL: facts.natsUrl,
    CLICKHOUSE_URL: facts.clickhouseUrl,
    SECRET_KEY: facts.secretKey,
    TLS_CERT_FILE: facts.certFile,
    TLS_KEY_FILE: facts.keyFile,
    API_PORT: String(facts.apiPort),
    METRICS_PORT: '0',
  };
  const plan = (name: string, entry: string): ProcessPlan => ({ name, entry, settings: { ...common, INSTANCE: name } });
  const redirectors = Array.from({ length: redirectorCount(config) }, (_, n) => `redirector-${n}`);
  return [
    plan('ingest', join('ingest', 'main.js')),
    plan('publisher', join('common', 'log', 'publisher-main.js')),
    plan('origin', join('deploy', 'local', 'origin.js')),
    ...redirectors.map((name) => plan(name, join('redirector', 'main.js'))),
  ];
}
