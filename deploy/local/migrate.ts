/** `npm run migrate`: migrates the stores at DATABASE_URL and CLICKHOUSE_URL to the newest schema. */
import { allowClosedOutput } from '#common/process/closed-output.ts';
import { ConfigError, toolConfig } from '#common/process/config.ts';
import { fileFault } from '#common/process/file-fault.ts';
import { StartupError } from './child.ts';
import { migrateStores } from './migrate-stores.ts';

async function main(): Promise<void> {
  allowClosedOutput();
  const config = toolConfig('migrate', ['DATABASE_URL', 'CLICKHOUSE_URL']);
  await migrateStores({
    databaseUrl: config.DATABASE_URL,
    clickhouseUrl: config.CLICKHOUSE_URL,
    retentionDays: config.RETENTION_DAYS,
    log: (line) => console.log(line),
  });
  console.log('Postgres and ClickHouse are migrated');
}

main().catch((error: unknown) => {
  console.error(
    error instanceof ConfigError || error instanceof StartupError ? error.message : (fileFault(error) ?? error),
  );
  process.exit(1);
});
