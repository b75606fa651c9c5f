/**
 * Takes the data of an installation from its stores to others: everything that Postgres and ClickHouse have. Nothing may
 * run meanwhile. Journals stay where they are: what the stores lack is published from them again, whatever the log has.
 *
 * An import loads ClickHouse first, then Postgres, in one transaction that locks every table. Until it commits, Postgres
 * has no organization, so a half store never looks whole.
 */
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClickHouse } from '#clickhouse/client.ts';
import type { Postgres, Queries } from '#common/stores/postgres.ts';
import { StartupError } from '#deploy/local/child.ts';
import { makeNewFolder } from '#deploy/local/new-folder.ts';
import {
  addLines,
  type ClickHousePart,
  clickhouseMigrations,
  countRows,
  emptyStore,
  linesOf,
  partsOf,
  tablesWithRows,
} from './clickhouse-tables.ts';
import { readLines, writeLines } from './line-files.ts';
import {
  addRows,
  emptyTables,
  filledByUse,
  hasRows,
  otherSessions,
  postgresMigrations,
  rowsOf,
  sequencesOf,
  setSequences,
  setTriggers,
  tablesOf,
} from './postgres-tables.ts';

export interface Stores {
  readonly postgres: Postgres;
  readonly clickhouse: ClickHouse;
}

interface Manifest {
  readonly postgres_migrations: readonly string[];
  readonly clickhouse_migrations: readonly string[];
  readonly sequences: Readonly<Record<string, string>>;
  /** Rows by table of Postgres. */
  readonly tables: Readonly<Record<string, number>>;
  readonly parts: readonly (ClickHousePart & { readonly rows: number })[];
}

export interface Moved {
  readonly tables: number;
  readonly rows: number;
}

const manifestFile = 'export.json';
const postgresBatchCharacters = 1_048_576;
const clickhouseBatchCharacters = 4_194_304;

const tableFile = (folder: string, name: string) => join(folder, 'postgres', `${name}.jsonl.gz`);
const partFile = (folder: string, { table, partition }: ClickHousePart) =>
  join(folder, 'clickhouse', `${table}${partition === '' ? '' : `-${partition}`}.tsv.gz`);

/** A long transaction waits for ClickHouse, and must not be ended meanwhile. */
async function withoutLimits(queries: Queries): Promise<void> {
  await queries.execute("SET LOCAL TimeZone = 'UTC'");
  await queries.execute("SET LOCAL DateStyle = 'ISO, YMD'");
  await queries.execute('SET LOCAL idle_in_transaction_session_timeout = 0');
}

async function refuseOtherSessions(queries: Queries): Promise<void> {
  const others = await otherSessions(queries);
  if (others.length === 0) return;
  throw new StartupError(
    `${others.join(', ')} ${others.length === 1 ? 'is' : 'are'} connected to this Postgres database: stop every process of Signpost first.`,
  );
}

/** @throws StartupError if the folder exists, other users can write where it is, or anything is connected to Postgres. */
export async function exportStores({ postgres, clickhouse }: Stores, folder: string): Promise<Moved> {
  makeNewFolder(folder);
  const tables: Record<string, number> = {};
  const inPostgres = await postgres.transaction(async (queries) => {
    await queries.execute('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY');
    await withoutLimits(queries);
    await refuseOtherSessions(queries);
    for (const table of await tablesOf(queries))
      tables[table.name] = await writeLines(tableFile(folder, table.name), rowsOf(queries, table));
    return { postgres_migrations: await postgresMigrations(queries), sequences: await sequencesOf(queries) };
  });
  const parts: Manifest['parts'][number][] = [];
  for (const part of await partsOf(clickhouse))
    parts.push({ ...part, rows: await writeLines(partFile(folder, part), linesOf(clickhouse, part)) });
  const manifest: Manifest = {
    ...{ ...inPostgres, clickhouse_migrations: await clickhouseMigrations(clickhouse), tables, parts },
  };
  // Written last: a folder without it is not a whole export.
  const draft = join(folder, `${manifestFile}.new`);
  writeFileSync(draft, `${JSON.stringify(manifest, null, 2)}\n`, { flag: 'wx', mode: 0o600 });
  renameSync(draft, join(folder, manifestFile));
  return sumOf(manifest);
}

function sumOf({ tables, parts }: Manifest): Moved {
  const counts = [...Object.values(tables), ...parts.map(({ rows }) => rows)];
  const names = new Set([...Object.keys(tables), ...parts.map(({ table }) => table)]);
  return { tables: names.size, rows: counts.reduce((sum, rows) => sum + rows, 0) };
}

function readManifest(folder: string): Manifest {
  const file = join(folder, manifestFile);
  if (!existsSync(file))
    throw new StartupError(`${file} does not exist: the export did not finish. Export again, to a new folder.`);
  const manifest = parsed(file);
  const files = [
    ...Object.keys(manifest.tables).map((name) => tableFile(folder, name)),
    ...manifest.parts.map((part) => partFile(folder, part)),
  ];
  const missing = files.filter((one) => !existsSync(one));
  if (missing.length === 0) return manifest;
  throw new StartupError(
    `The export is incomplete: ${missing[0]} is missing (${missing.length} of ${files.length} files are). Nothing was imported.`,
  );
}

function parsed(file: string): Manifest {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Manifest;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new StartupError(`The export is damaged: ${file} is not whole. Nothing was imported.`);
  }
}

function refuseOtherRelease(store: string, exported: readonly string[], own: readonly string[]): void {
  const [missing] = exported.filter((name) => !own.includes(name));
  const [further] = own.filter((name) => !exported.includes(name));
  if (missing === undefined && further === undefined) return;
  const difference =
    missing === undefined ? `has the migration ${further}, which` : `lacks the migration ${missing}, which`;
  throw new StartupError(
    `${store} ${difference} the export ${missing === undefined ? 'lacks' : 'has'}: run 'npm run migrate' of the release that exported.`,
  );
}

/**
 * @param again whether to empty a ClickHouse that an interrupted import left with rows.
 * @throws StartupError if the target is not empty, not of the same release, or in use.
 */
export async function importStores({ postgres, clickhouse }: Stores, folder: string, again: boolean): Promise<Moved> {
  const manifest = readManifest(folder);
  await postgres.transaction(async (queries) => {
    await withoutLimits(queries);
    await refuseOtherSessions(queries);
    refuseOtherRelease('Postgres', manifest.postgres_migrations, await postgresMigrations(queries));
    const tables = await tablesOf(queries);
    for (const table of tables.filter(({ name }) => filledByUse.has(name))) {
      if (!(await hasRows(queries, table))) continue;
      throw new StartupError(
        `Postgres already has rows in ${table.name}: import into an empty database that 'npm run migrate' has prepared and nothing has used.`,
      );
    }
    await emptyTables(queries, tables);
    await setTriggers(queries, tables, 'DISABLE');
    await importClickHouse(clickhouse, manifest, folder, again);
    for (const table of tables) {
      const rows = await addRows(queries, table, readLines(tableFile(folder, table.name), postgresBatchCharacters));
      refuseOtherCount(table.name, rows, manifest.tables[table.name]);
    }
    await setSequences(queries, manifest.sequences);
    await setTriggers(queries, tables, 'ENABLE');
  });
  return sumOf(manifest);
}

function refuseOtherCount(table: string, rows: number, exported: number | undefined): void {
  if (rows === exported) return;
  throw new StartupError(
    `${table} got ${rows} rows instead of ${exported ?? 'any'}: the export is damaged. Nothing was imported.`,
  );
}

async function importClickHouse(clickhouse: ClickHouse, manifest: Manifest, folder: string, again: boolean) {
  refuseOtherRelease('ClickHouse', manifest.clickhouse_migrations, await clickhouseMigrations(clickhouse));
  const used = await tablesWithRows(clickhouse);
  if (used.length > 0 && !again) {
    throw new StartupError(
      `ClickHouse already has rows in ${used.join(', ')}. If an interrupted import left them, run it again with --again, which deletes them; else choose an empty database.`,
    );
  }
  if (used.length > 0) await emptyStore(clickhouse);
  const run = randomUUID();
  for (const part of manifest.parts) {
    const rows = await addLines(clickhouse, part, readLines(partFile(folder, part), clickhouseBatchCharacters), run);
    refuseOtherCount(part.table, rows, part.rows);
  }
  for (const table of new Set(manifest.parts.map((part) => part.table))) {
    const exported = manifest.parts.filter((part) => part.table === table);
    const rows = exported.reduce((sum, part) => sum + part.rows, 0);
    // Rows past their retention may be gone again, and those of an aggregating table merged.
    if ((await countRows(clickhouse, table)) === 0 && rows > 0)
      throw new StartupError(`${table} has no rows after the import.`);
  }
}
