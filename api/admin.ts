/** `npm run admin -- <command>`: users, organizations, keys, the audit of the figures. */
import { ClickHouse } from '#clickhouse/client.ts';
import { systemClock } from '#common/clock.ts';
import { ConfigError, closeNewFiles, loadConfig } from '#common/config.ts';
import { Postgres, PostgresUnavailable } from '#common/postgres.ts';
import type { AdminParts } from './admin/accounts.ts';
import { addAuditCommand } from './admin/audit.ts';
import { adminProgram } from './admin/commands.ts';
import { localClickHouseUrl, localDatabaseUrl, localSecretKey } from './admin/local-store.ts';
import { AdminError } from './admin/questions.ts';

async function main(): Promise<void> {
  closeNewFiles();
  const config = loadConfig();
  let db: Postgres | undefined;
  const parts = (): AdminParts => {
    const url = config.DATABASE_URL || localDatabaseUrl(config.DATA_DIR);
    if (url === '') throw new AdminError('DATABASE_URL is not set, and npm start runs no Postgres on this machine');
    db ??= new Postgres({ url, name: 'admin', connectionsMax: 1 });
    return { db, clock: systemClock };
  };
  let clickhouse: ClickHouse | undefined;
  const program = adminProgram({
    parts,
    adminEmail: config.ADMIN_EMAIL,
    adminPassword: config.ADMIN_PASSWORD,
    secretKey: config.SECRET_KEY || localSecretKey(config.DATA_DIR),
    print: (line) => console.log(line),
    warn: (line) => console.error(line),
  });
  addAuditCommand(program, {
    clickhouse: () => {
      const url = config.CLICKHOUSE_URL || localClickHouseUrl(config.DATA_DIR);
      if (url === '')
        throw new AdminError('CLICKHOUSE_URL is not set, and npm start runs no ClickHouse on this machine');
      clickhouse ??= new ClickHouse({ url, requestTimeoutMs: 600_000, connectionsMax: 2 });
      return clickhouse;
    },
    nowMs: systemClock,
    print: (line) => console.log(line),
    onFaults: () => {
      process.exitCode = 1;
    },
  });
  try {
    await program.parseAsync();
  } finally {
    await Promise.all([db?.close(), clickhouse?.close()]);
  }
}

main().catch((error: unknown) => {
  const isExpected =
    error instanceof AdminError || error instanceof ConfigError || error instanceof PostgresUnavailable;
  console.error(isExpected ? error.message : error);
  process.exitCode = 1;
});
