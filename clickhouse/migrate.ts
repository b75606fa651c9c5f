/**
 * Migrates ClickHouse to the newest schema. Migrations only go forward, are numbered without gaps and never edited: the
 * checksum of each is stored. Every statement can run twice (IF NOT EXISTS), so an interrupted migration is run again.
 *
 * ClickHouse has no transactions over DDL; two concurrent migrators are safe because each statement is idempotent.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { matchRetentionDaysMax } from '#common/log/match-record.ts';
import { packageRoot } from '#common/process/paths.ts';
import type { ClickHouse } from './client.ts';

export interface MigrateOptions {
  /** Age at which raw rows are dropped, one partition at a time; at most 20,000 days. */
  readonly retentionDays: number;
  /** Name of a cluster: the tables are then Replicated and created ON CLUSTER. Empty: one server. */
  readonly cluster?: string;
  /** Folder of the numbered .sql files; the package's own if absent. */
  readonly folder?: string;
}

export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly sql: string;
  readonly sha256: string;
}

/** This version of Signpost cannot migrate the schema; an operator has to act. */
export class MigrationError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'MigrationError';
  }
}

/** The migrations of a folder in order. @throws MigrationError for a gap or a file that is not named 0001-name.sql. */
export function readMigrations(folder: string = join(packageRoot(), 'clickhouse', 'migrations')): Migration[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.sql'));
  return names.sort().map((name, index) => {
    const number = Number(/^(\d{4})-[a-z0-9-]+\.sql$/.exec(name)?.[1]);
    if (number !== index + 1)
      throw new MigrationError(`${name} should be migration ${index + 1} of ${folder}: number the files without gaps`);
    const sql = readFileSync(join(folder, name), 'utf8');
    return { number, name, sql, sha256: createHash('sha256').update(sql).digest('hex') };
  });
}

/**
 * The expiry of a row is a DateTime, which overflows in 2106: a later expiry would wrap into the past, and the row
 * would be dropped.
 */
const retentionDaysMax = 20_000;

/** Values of the ${ } placeholders in a migration. */
function placeholders({ retentionDays, cluster = '' }: MigrateOptions): ReadonlyMap<string, string> {
  const isCluster = cluster !== '';
  const engine = (family: string) =>
    isCluster ? `Replicated${family}('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')` : family;
  return new Map([
    ['on_cluster', isCluster ? `ON CLUSTER '${cluster.replaceAll("'", '')}'` : ''],
    ['MergeTree', engine('MergeTree')],
    ['AggregatingMergeTree', engine('AggregatingMergeTree')],
    // Retries are recognized by their token; parts are on disk before an insert is answered.
    [
      'once_and_kept',
      `${isCluster ? 'replicated' : 'non_replicated'}_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1`,
    ],
    ['retention_days', String(retentionDays)],
    ['match_retention_days', String(Math.min(retentionDays, matchRetentionDaysMax))],
  ]);
}

/** The statements of a migration with its placeholders filled in; a statement ends with `;` at the end of a line. */
export function statementsOf(sql: string, values: ReadonlyMap<string, string>): string[] {
  const filled = sql.replaceAll(/\$\{(\w+)\}/g, (_, name: string) => {
    const value = values.get(name);
    if (value === undefined) throw new MigrationError(`The migration uses \${${name}}, which does not exist`);
    return value;
  });
  const withoutComments = filled.replaceAll(/^\s*--.*$/gm, '');
  return withoutComments
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');
}

/** Applies the current retention setting, since tables were created with an older one. Old parts follow at a merge. */
async function keepRetention(client: ClickHouse, onCluster: string, retentionDays: number): Promise<void> {
  const tables = await client.query<{ name: string; engine_full: string }>(
    "SELECT name, engine_full FROM system.tables WHERE database = currentDatabase() AND engine_full LIKE '%ttl_only_drop_parts%'",
  );
  for (const { name, engine_full } of tables) {
    const [, time = '', days = ''] = /TTL (.+?) \+ toIntervalDay\((\d+)\)/.exec(engine_full) ?? [];
    const wanted = name === 'matches' ? Math.min(retentionDays, matchRetentionDaysMax) : retentionDays;
    if (time === '' || Number(days) === wanted) continue;
    await client.command(
      `ALTER TABLE ${name} ${onCluster} MODIFY TTL ${time} + toIntervalDay(${wanted})`,
      {},
      { materialize_ttl_after_modify: 0 },
    );
  }
}

/**
 * Applies missing migrations and returns their names. @throws MigrationError if a migration was edited after it ran, or
 * the database is newer than this code. @throws ClickHouseFailure if ClickHouse does not execute one.
 */
export async function migrateClickHouse(client: ClickHouse, options: MigrateOptions): Promise<string[]> {
  const migrations = readMigrations(options.folder);
  const retentionDays = Math.min(Math.trunc(options.retentionDays), retentionDaysMax);
  const values = placeholders({ ...options, retentionDays });
  const onCluster = values.get('on_cluster') ?? '';
  await client.createDatabase(onCluster);
  await client.command(
    `CREATE TABLE IF NOT EXISTS migrations ${onCluster} (number UInt32, name String, sha256 String, applied_at DateTime64(3, 'UTC') DEFAULT now64(3))
     ENGINE = ${values.get('MergeTree')} ORDER BY number SETTINGS fsync_after_insert = 1, fsync_part_directory = 1`,
  );
  const done = await client.query<{ number: number; sha256: string }>(
    'SELECT number, any(sha256) AS sha256 FROM migrations GROUP BY number ORDER BY number',
  );
  const shaOf = new Map(done.map((row) => [row.number, row.sha256]));
  const newest = Math.max(0, ...shaOf.keys());
  if (newest > migrations.length) {
    throw new MigrationError(
      `The database has migration ${newest}, but this version only knows ${migrations.length}: start a newer version`,
    );
  }
  const applied: string[] = [];
  for (const { number, name, sql, sha256 } of migrations) {
    const known = shaOf.get(number);
    if (known === sha256) continue;
    if (known !== undefined)
      throw new MigrationError(
        `${name} was changed after it had been applied: restore it, and add a new migration instead`,
      );
    for (const statement of statementsOf(sql, values)) await client.command(statement);
    await client.command(
      'INSERT INTO migrations (number, name, sha256) SELECT {number:UInt32}, {name:String}, {sha256:String}',
      { number, name, sha256 },
      { async_insert: 0 },
    );
    applied.push(name);
  }
  await keepRetention(client, onCluster, retentionDays);
  return applied;
}
