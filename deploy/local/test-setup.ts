/** Runs once per run of the live tests: one Postgres and one ClickHouse in a temporary folder, on free ports. */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { builtClickHouse, startClickHouse } from './clickhouse/spawn.ts';
import { refuseMissingServers } from './missing-servers.ts';
import { startPostgres } from './servers.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    postgresUrl: string;
    clickhouseUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  refuseMissingServers();
  const folder = mkdtempSync(join(tmpdir(), 'signpost-test-'));
  chmodSync(folder, 0o755);
  const [postgres, clickhouse] = await Promise.all([
    startPostgres({ dataDir: join(folder, 'postgres'), isDurable: false }),
    startClickHouse({ dataDir: join(folder, 'clickhouse'), entry: builtClickHouse() }),
  ]);
  project.provide('postgresUrl', postgres.url);
  project.provide('clickhouseUrl', clickhouse.url);
  return async () => {
    await Promise.all([postgres.stop(), clickhouse.stop()]);
    rmSync(folder, { recursive: true, force: true });
  };
}
