/** Finds, before startup, all servers that have no configured URL and are not installed on this machine. */
import type { Config } from '#common/process/settings.ts';
import { StartupError } from './child.ts';
import { findChdb } from './clickhouse/spawn.ts';
import { findNats } from './nats.ts';
import { findPostgres } from './postgres.ts';
import { findRedis } from './redis.ts';

const finds = {
  DATABASE_URL: findPostgres,
  NATS_URL: findNats,
  REDIS_URL: findRedis,
  CLICKHOUSE_URL: findChdb,
} as const;

type Given = Partial<Pick<Config, keyof typeof finds | 'SHORT_LINK_DOMAIN' | 'REDIS_STAND_IN'>>;

/** One sentence for each missing server, with the command that installs it; empty when none is missing. */
export function missingServers(given: Given = {}): string[] {
  const names = ['DATABASE_URL', 'NATS_URL', 'REDIS_URL', 'CLICKHOUSE_URL'] as const;
  return names.flatMap((name) => {
    if ((given[name] ?? '') !== '') return [];
    try {
      const found = finds[name]();
      const isStandIn = typeof found === 'object' && 'isStandIn' in found && found.isStandIn;
      return isStandIn && needsRealRedis(given) ? [standInRefusal] : [];
    } catch (error) {
      if (error instanceof StartupError) return [error.message];
      throw error;
    }
  });
}

const standInRefusal =
  "No valkey-server or redis-server was found, and npm start's stand-in for it is only for development: it has no memory limit. " +
  "Since SHORT_LINK_DOMAIN is set, run 'apt install redis-server', or set REDIS_URL to your own server (REDIS_STAND_IN=true uses the stand-in).";

function needsRealRedis({
  SHORT_LINK_DOMAIN: domain = 'localhost',
  REDIS_STAND_IN: isAccepted = false,
}: Given): boolean {
  return domain !== 'localhost' && !isAccepted;
}

/** @throws StartupError that names every missing server. */
export function refuseMissingServers(given?: Given): void {
  const missing = missingServers(given);
  if (missing.length > 0) throw new StartupError(missing.join('\n  '));
}
