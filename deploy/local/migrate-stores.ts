import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';

export interface StoresToMigrate {
  readonly databaseUrl: string;
  readonly clickhouseUrl: string;
  readonly retentionDays: number;
  readonly log?: (line: string) => void;
}

/** Brings both stores to the newest schema. Doing it again changes nothing. */
export async function migrateStores(stores: StoresToMigrate): Promise<void> {
  const log = stores.log ?? (() => undefined);
  const clickhouse = new ClickHouse({ url: stores.clickhouseUrl });
  try {
    const [, names] = await Promise.all([
      migratePostgres({ url: stores.databaseUrl, log }),
      migrateClickHouse(clickhouse, { retentionDays: stores.retentionDays }),
    ]);
    for (const name of names) log(`migrated ${name}`);
  } finally {
    await clickhouse.close();
  }
}
