import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { runner } from 'node-pg-migrate';
import { packageRoot } from '#common/process/paths.ts';
import { Postgres, patientConnectMs, writableUrl } from '#common/stores/postgres.ts';
import { grantProcessRoles } from './role-rights.ts';

export interface PostgresMigrationOptions {
  readonly url: string;
  /** Called with one line for each migration that was run. */
  readonly log?: (line: string) => void;
  /** Folder with other files, for tests. */
  readonly folder?: string;
}

/** Every other file of the folder, this one and the dumped schema, is skipped. */
const notMigrations = '(?!\\d{4}_[a-z0-9_]+\\.sql$).*';

/** An older version would run on a schema that it does not know. @throws if the database has a migration without a file. */
async function refuseNewer(url: string, folder: string): Promise<void> {
  const known = new Set(readdirSync(folder).map((file) => file.replace(/\.sql$/, '')));
  const db = new Postgres({ url, name: 'migrate', connectionsMax: 1, connectTimeoutMs: patientConnectMs });
  try {
    const [table] = await db.query<{ is_there: boolean }>(
      "SELECT to_regclass('pg_migrations') IS NOT NULL AS is_there",
    );
    if (table?.is_there !== true) return;
    const run = await db.query<{ name: string }>('SELECT name FROM pg_migrations ORDER BY id');
    const unknown = run.filter(({ name }) => !known.has(name)).map(({ name }) => name);
    if (unknown.length === 0) return;
    throw new Error(
      `The database has migration ${unknown.at(-1)}, which this version does not know: start the newer version, or restore the backup from before the upgrade`,
    );
  } finally {
    await db.close();
  }
}

/**
 * Runs every pg-migrations/NNNN_name.sql that was not run yet, in order and in one transaction. Forward only. Of two
 * concurrent processes, the second waits, and then finds nothing to do. Afterwards the processes' roles get their
 * privileges. @returns the names of the migrations that were run, without `.sql`.
 */
export async function migratePostgres(options: PostgresMigrationOptions): Promise<string[]> {
  const quiet = () => undefined;
  const url = await writableUrl(options.url);
  const folder = options.folder ?? join(packageRoot(), 'pg-migrations');
  await refuseNewer(url, folder);
  const done = await runner({
    databaseUrl: { connectionString: url, connectionTimeoutMillis: patientConnectMs, application_name: 'migrate' },
    dir: folder,
    ignorePattern: notMigrations,
    migrationsTable: 'pg_migrations',
    direction: 'up',
    singleTransaction: true,
    // Rooms number their migrations in separate blocks, so a lower number may be the newer one.
    checkOrder: false,
    advisoryLockMode: 'wait',
    logger: { info: quiet, debug: quiet, warn: (line) => options.log?.(line), error: (line) => options.log?.(line) },
  });
  const names = done.map((migration) => migration.name);
  for (const name of names) options.log?.(`migrated ${name}`);
  if (options.folder === undefined) await grantProcessRoles(url);
  return names;
}
