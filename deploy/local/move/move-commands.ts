/** `npm run admin -- export-stores` and `import-stores`: from the servers of npm start, or any others, to empty ones. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { AdminError } from '#api/admin/questions.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import type { ToolConfig } from '#common/process/config-roles.ts';
import { Postgres, patientConnectMs } from '#common/stores/postgres.ts';
import { asAdminError } from '#deploy/local/as-admin-error.ts';
import { StartupError } from '#deploy/local/child.ts';
import { builtClickHouse, startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import { lockFolder } from '#deploy/local/folder-lock.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { startPostgres } from '#deploy/local/postgres.ts';
import { exportStores, importStores, type Moved, type Stores } from './move.ts';

const statementTimeoutMs = 3_600_000;

export function addMoveCommands(program: Command, config: ToolConfig<'admin'>): void {
  program
    .command('export-stores')
    .description(
      'Write everything that Postgres and ClickHouse have to a new folder, for import-stores. Signpost must be stopped: the ' +
        'command starts the servers of npm start itself. Keep DATA_DIR: its journals have records that are not stored yet.',
    )
    .requiredOption('--to <folder>', 'a folder that does not exist yet')
    .action(async ({ to }: { to: string }) => {
      const moved = await asAdminError(withOwnServers(config, (stores) => exportStores(stores, resolve(to))));
      console.log(`${resolve(to)} has ${textOf(moved)}. Do not start the old installation again after the import.`);
    });

  program
    .command('import-stores')
    .description(
      'Load the folder of export-stores into DATABASE_URL and CLICKHOUSE_URL, which the same release has migrated and nothing ' +
        'has used. Nothing is in Postgres until everything is.',
    )
    .requiredOption('--from <folder>', 'the folder of export-stores')
    .option('--again', 'delete what an interrupted import left in ClickHouse')
    .action(async ({ from, again }: { from: string; again?: true }) => {
      const missing = (['DATABASE_URL', 'CLICKHOUSE_URL'] as const).filter((name) => config[name] === '');
      if (missing.length > 0) throw new AdminError(`Set ${missing.join(' and ')} to the servers to import into.`);
      const stores = open(config.DATABASE_URL, config.CLICKHOUSE_URL);
      const moved = await asAdminError(closing(stores, () => importStores(stores, resolve(from), again === true)));
      console.log(`Imported ${textOf(moved)}. Check them with 'npm run admin -- audit', then start Signpost.`);
    });
}

function textOf({ tables, rows }: Moved): string {
  return `${rows} rows of ${tables} tables`;
}

function open(databaseUrl: string, clickhouseUrl: string): Stores {
  const limits = { connectionsMax: 1, connectTimeoutMs: patientConnectMs, statementTimeoutMs };
  return {
    postgres: new Postgres({ url: databaseUrl, name: 'move', ...limits }),
    clickhouse: new ClickHouse({ url: clickhouseUrl, requestTimeoutMs: statementTimeoutMs, connectionsMax: 2 }),
  };
}

async function closing<T>({ postgres, clickhouse }: Stores, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } finally {
    await Promise.all([postgres.close(), clickhouse.close()]);
  }
}

/** Starts the servers of DATA_DIR that no setting replaces, which npm start must not be running. */
async function withOwnServers<T>(config: ToolConfig<'admin'>, work: (stores: Stores) => Promise<T>): Promise<T> {
  const dataDir = resolve(config.DATA_DIR);
  const lock = await lockFolder(dataDir);
  const started: LocalServer[] = [];
  const urlOf = async (given: string, name: string, start: (dataDir: string) => Promise<LocalServer>) => {
    if (given !== '') return given;
    const place = join(dataDir, name);
    if (!existsSync(place)) throw new StartupError(`${place} does not exist: set DATA_DIR to the folder of npm start.`);
    const server = await start(place);
    started.push(server);
    return server.url;
  };
  try {
    const databaseUrl = await urlOf(config.DATABASE_URL, 'postgres', (place) => startPostgres({ dataDir: place }));
    const clickhouseUrl = await urlOf(config.CLICKHOUSE_URL, 'clickhouse', (place) =>
      startClickHouse({ dataDir: place, entry: builtClickHouse() }),
    );
    const stores = open(databaseUrl, clickhouseUrl);
    return await closing(stores, () => work(stores));
  } finally {
    await Promise.all(started.map((server) => server.stop()));
    lock.release();
  }
}
