/** Runs once per run of the live tests: one Postgres and one ClickHouse in a temporary folder, on free ports. */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { builtClickHouse, startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import { ensureRole } from '#deploy/local/database-roles.ts';
import { refuseMissingServers } from '#deploy/local/missing-servers.ts';
import { startPostgres } from '#deploy/local/servers.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { processRoles } from '#pg-migrations/role-rights.ts';
import { type ClickHouseSchema, readSchema } from './clickhouse-schema.ts';
import { rolePasswordForTest } from './roles.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    postgresUrl: string;
    /** A migrated database from which the others are copied. */
    postgresTemplate: string;
    clickhouseUrl: string;
    /** What all migrations together make. */
    clickhouseSchema: ClickHouseSchema;
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
  const [postgresTemplate, clickhouseSchema] = await Promise.all([
    makeTemplate(postgres.url),
    migratedSchema(clickhouse.url),
  ]);
  project.provide('postgresUrl', postgres.url);
  project.provide('postgresTemplate', postgresTemplate);
  project.provide('clickhouseUrl', clickhouse.url);
  project.provide('clickhouseSchema', clickhouseSchema);
  return async () => {
    await Promise.all([postgres.stop(), clickhouse.stop()]);
    rmSync(folder, { recursive: true, force: true });
  };
}

async function makeTemplate(serverUrl: string): Promise<string> {
  await makeRoles(serverUrl);
  const template = 'signpost_template';
  const admin = new Postgres({ url: serverUrl, name: 'test-setup', connectionsMax: 1 });
  await admin.execute(`CREATE DATABASE ${template}`);
  await admin.close();
  const url = new URL(serverUrl);
  url.pathname = `/${template}`;
  await migratePostgres({ url: url.href });
  return template;
}

async function migratedSchema(serverUrl: string): Promise<ClickHouseSchema> {
  const url = new URL(serverUrl);
  url.pathname = '/signpost_template';
  const client = new ClickHouse({ url: url.href, connectionsMax: 1 });
  try {
    // Longer than any test's records are old.
    await migrateClickHouse(client, { retentionDays: 36_500 });
    return await readSchema(client);
  } finally {
    await client.close();
  }
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
