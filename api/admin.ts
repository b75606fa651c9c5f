/** `npm run admin -- <command>`: users, organizations, keys. */
import { systemClock } from '#common/clock.ts';
import { ConfigError, loadConfig } from '#common/config.ts';
import { Postgres, PostgresUnavailable } from '#common/postgres.ts';
import type { AdminParts } from './admin/accounts.ts';
import { adminProgram } from './admin/commands.ts';
import { localDatabaseUrl, localSecretKey } from './admin/local-store.ts';
import { AdminError } from './admin/questions.ts';

async function main(): Promise<void> {
  const config = loadConfig();
  let db: Postgres | undefined;
  const parts = (): AdminParts => {
    const url = config.DATABASE_URL || localDatabaseUrl(config.DATA_DIR);
    if (url === '') throw new AdminError('DATABASE_URL is not set, and npm start runs no Postgres on this machine');
    db ??= new Postgres({ url, name: 'admin', connectionsMax: 1 });
    return { db, clock: systemClock };
  };
  const program = adminProgram({
    parts,
    adminEmail: config.ADMIN_EMAIL,
    adminPassword: config.ADMIN_PASSWORD,
    secretKey: config.SECRET_KEY || localSecretKey(config.DATA_DIR),
    print: (line) => console.log(line),
  });
  try {
    await program.parseAsync();
  } finally {
    await db?.close();
  }
}

main().catch((error: unknown) => {
  const isExpected =
    error instanceof AdminError || error instanceof ConfigError || error instanceof PostgresUnavailable;
  console.error(isExpected ? error.message : error);
  process.exitCode = 1;
});
