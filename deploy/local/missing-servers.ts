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

/** One sentence for each missing server, with the command that installs it; empty when none is missing. */
export function missingServers(urls: Partial<Pick<Config, keyof typeof finds>> = {}): string[] {
  const names = ['DATABASE_URL', 'NATS_URL', 'REDIS_URL', 'CLICKHOUSE_URL'] as const;
  return names.flatMap((name) => {
    if ((urls[name] ?? '') !== '') return [];
    try {
      finds[name]();
      return [];
    } catch (error) {
      if (error instanceof StartupError) return [error.message];
      throw error;
    }
  });
}

/** @throws StartupError that names every missing server. */
export function refuseMissingServers(urls?: Parameters<typeof missingServers>[0]): void {
  const missing = missingServers(urls);
  if (missing.length > 0) throw new StartupError(missing.join('\n  '));
}
