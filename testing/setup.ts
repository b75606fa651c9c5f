/** Runs once per run of the live tests: one Postgres and one ClickHouse in a temporary folder, on free ports. */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { Postgres } from '#common/stores/postgres.ts';
import { builtClickHouse, startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import { ensureRole } from '#deploy/local/database-roles.ts';
import { refuseMissingServers } from '#deploy/local/missing-servers.ts';
import { startPostgres } from '#deploy/local/servers.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { processRoles } from '#pg-migrations/role-rights.ts';
import { rolePasswordForTest } from './roles.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    postgresUrl: string;
    /** A migrated database from which the others are copied. */
    postgresTemplate: string;
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
  await makeRoles(postgres.url);
  const template = 'signpost_template';
  const admin = new Postgres({ url: postgres.url, name: 'test-setup', connectionsMax: 1 });
  await admin.execute(`CREATE DATABASE ${template}`);
  await admin.close();
  const url = new URL(postgres.url);
  url.pathname = `/${template}`;
  await migratePostgres({ url: url.href });
  project.provide('postgresUrl', postgres.url);
  project.provide('postgresTemplate', template);
  project.provide('clickhouseUrl', clickhouse.url);
  return async () => {
    await Promise.all([postgres.stop(), clickhouse.stop()]);
    rmSync(folder, { recursive: true, force: true });
  };
}

/** Roles belong to the whole server: they are created once, before tests create databases concurrently. */
async function makeRoles(url: string): Promise<void> {
  const db = new Postgres({ url, name: 'test-setup', connectionsMax: 1 });
  try {
    await db.execute('CREATE ROLE signpost_api NOLOGIN NOINHERIT');
    for (const role of processRoles) await ensureRole(db, role, rolePasswordForTest);
    await db.execute('GRANT signpost_api TO signpost_api_process');
  } finally {
    await db.close();
  }
}
