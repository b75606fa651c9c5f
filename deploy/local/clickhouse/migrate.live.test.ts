import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { MigrationError, migrateClickHouse, readMigrations } from '#clickhouse/migrate.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { builtClickHouse, startClickHouse } from './spawn.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-migrate-'));
let server: LocalServer;
let client: ClickHouse;

beforeAll(async () => {
  server = await startClickHouse({ dataDir: join(folder, 'server'), port: 0, entry: builtClickHouse() });
  client = new ClickHouse({ url: `${server.url}/a-database` });
});

afterAll(async () => {
  await client.close();
  await server.stop();
  rmSync(folder, { recursive: true });
});

/** The definition of each table; `changed` adds when a statement last altered it, even without a difference. */
async function schema(changed = '') {
  return await client.query(
    `SELECT name, create_table_query${changed} FROM system.tables WHERE database = currentDatabase() ORDER BY name`,
  );
}

test('migrations create the database and run once; a second run changes nothing', async () => {
  const names = readMigrations().map(({ name }) => name);
  expect(await migrateClickHouse(client, { retentionDays: 730 })).toEqual(names);
  const touched = ', metadata_modification_time';
  const before = await schema(touched);
  expect(await migrateClickHouse(client, { retentionDays: 730 })).toEqual([]);
  expect(await schema(touched)).toEqual(before);
});

test('a migration that was interrupted before it was recorded runs again', async () => {
  const before = await schema();
  await client.command('TRUNCATE TABLE migrations');
  expect(await migrateClickHouse(client, { retentionDays: 730 })).toHaveLength(
    before.length > 0 ? readMigrations().length : 0,
  );
  expect(await schema()).toEqual(before);
});

test('two concurrent migrators produce one schema', { tags: ['slow'] }, async () => {
  const other = new ClickHouse({ url: `${server.url}/race` });
  await Promise.all([1, 2].map(() => migrateClickHouse(other, { retentionDays: 730 })));
  expect(await migrateClickHouse(other, { retentionDays: 730 })).toEqual([]);
  await other.close();
});

test('a changed retention alters the tables of raw rows', async () => {
  const ttl = () =>
    client.query(
      "SELECT DISTINCT extract(engine_full, 'toIntervalDay\\\\((\\\\d+)\\\\)') AS days FROM system.tables WHERE database = currentDatabase() AND engine_full LIKE '%TTL%' ORDER BY toUInt32(days) DESC",
    );
  // Matches are deleted after 90 days at most.
  expect(await ttl()).toEqual([{ days: '730' }, { days: '90' }]);
  await migrateClickHouse(client, { retentionDays: 100 });
  expect(await ttl()).toEqual([{ days: '100' }, { days: '90' }]);
  await migrateClickHouse(client, { retentionDays: 30 });
  expect(await ttl()).toEqual([{ days: '30' }]);
});

test('every table with counts remembers tokens and is on disk before an insert is acknowledged', async () => {
  const bare = await client.query(
    `SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND name != 'migrations'
     AND NOT (engine_full LIKE '%non_replicated_deduplication_window = 10000%' AND engine_full LIKE '%fsync_after_insert = 1%'
     AND engine_full LIKE '%fsync_part_directory = 1%')`,
  );
  expect(bare).toEqual([]);
});

test('an edited migration and a database from a newer version are rejected', async () => {
  const edited = join(folder, 'edited');
  const first = readMigrations()[0];
  if (first === undefined) throw new Error('there are no migrations');
  cpSync(join(import.meta.dirname, '..', '..', '..', 'clickhouse', 'migrations'), edited, { recursive: true });
  writeFileSync(join(edited, first.name), `${first.sql}\n-- a word more`);
  await expect(migrateClickHouse(client, { retentionDays: 90, folder: edited })).rejects.toThrow(/was changed after/);
  const older = join(folder, 'older');
  cpSync(edited, older, { recursive: true });
  for (const { name } of readMigrations().slice(1)) rmSync(join(older, name));
  await expect(migrateClickHouse(client, { retentionDays: 90, folder: older })).rejects.toThrow(MigrationError);
});
