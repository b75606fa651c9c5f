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
 * Brings both stores to the newest schema. Doing it again changes nothing.
 * @throws StartupError that names the setting of the store which could not be.
 */
export async function migrateStores(stores: StoresToMigrate): Promise<void> {
  const log = stores.log ?? (() => undefined);
  const clickhouse = new ClickHouse({ url: stores.clickhouseUrl });
  try {
    // Both are waited for, also when one fails: what ends next must not pull a server from under the other.
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

/** Most characters of an answer that are repeated: something else than the store may have given it. */
const reasonCharsMax = 300;

function failed(store: string, error: unknown): StartupError {
  // An error of several connection attempts has a code and no message.
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const reason = (error instanceof Error && error.message) || code || String(error);
  return new StartupError(`${store} could not be migrated: ${reason.slice(0, reasonCharsMax)}`);
}
