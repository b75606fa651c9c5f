import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { StartupError } from './child.ts';

export interface StoresToMigrate {
  readonly databaseUrl: string;
  readonly clickhouseUrl: string;
  readonly retentionDays: number;
  readonly log?: (line: string) => void;
}

/**
 * Migrates both stores to the newest schema. It is idempotent. @throws StartupError that names the setting of the store
 * that could not be migrated.
 */
export async function migrateStores(stores: StoresToMigrate): Promise<void> {
  const log = stores.log ?? (() => undefined);
  const clickhouse = new ClickHouse({ url: stores.clickhouseUrl });
  try {
    // Waits for both even if one fails, so that exiting does not stop a server during the other's migration.
    const [postgres, migrated] = await Promise.allSettled([
      migratePostgres({ url: stores.databaseUrl, log }),
      migrateClickHouse(clickhouse, { retentionDays: stores.retentionDays }),
    ]);
    if (postgres.status === 'rejected') throw failed('Postgres (DATABASE_URL)', postgres.reason);
    if (migrated.status === 'rejected') throw failed('ClickHouse (CLICKHOUSE_URL)', migrated.reason);
    for (const name of migrated.value) log(`migrated ${name}`);
  } finally {
    await clickhouse.close();
  }
}

/** Maximum length of a quoted response, which something other than the store may have sent. */
const reasonCharsMax = 300;

function failed(store: string, error: unknown): StartupError {
  // An error of several connection attempts has a code but no message.
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const reason = (error instanceof Error && error.message) || code || String(error);
  const hint = error instanceof Error && 'hint' in error && typeof error.hint === 'string' ? ` ${error.hint}` : '';
  return new StartupError(`${store} could not be migrated: ${reason.slice(0, reasonCharsMax)}${hint && `.${hint}`}`);
}
