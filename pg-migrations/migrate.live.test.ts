import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readApps } from '#common/links/link-snapshot.ts';
import { packageRoot } from '#common/process/paths.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest } from '#testing/servers.ts';
import { migratePostgres } from './migrate.ts';

test('the project migrates, and a second run has nothing to do', async () => {
  const database = await postgresForTest();
  expect(await migratePostgres({ url: database.url })).toEqual([]);
  await database.stop();
});

test('two processes migrating at once run each migration once', async () => {
  const database = await postgresForTest({ isMigrated: false });
  const runs = await Promise.all([1, 2, 3].map(() => migratePostgres({ url: database.url })));
  expect(runs.filter((names) => names.length > 0)).toHaveLength(1);
  await database.stop();
});

test('files run in the order of their numbers, other files are skipped, a failing one undoes all', async () => {
  const database = await postgresForTest({ isMigrated: false });
  const folder = mkdtempSync(join(tmpdir(), 'signpost-migrations-'));
  writeFileSync(join(folder, '0002_second.sql'), "INSERT INTO steps VALUES ('{second}');");
  writeFileSync(join(folder, '0001_first.sql'), 'CREATE TABLE steps (name text);');
  writeFileSync(join(folder, 'schema.sql'), 'this is not SQL');
  const names = await migratePostgres({ url: database.url, folder });
  expect(names).toEqual(['0001_first', '0002_second']);
  writeFileSync(join(folder, '0003_third.sql'), "INSERT INTO steps VALUES ('third');");
  writeFileSync(join(folder, '0004_wrong.sql'), 'INSERT INTO nowhere VALUES (1);');
  await expect(migratePostgres({ url: database.url, folder })).rejects.toThrow('nowhere');
  const postgres = new Postgres({ url: database.url, name: 'test' });
  expect(await postgres.query('SELECT name FROM steps')).toEqual([{ name: '{second}' }]);
  await postgres.close();
  await database.stop();
  rmSync(folder, { recursive: true });
});

test('hosts that were served before verification existed are still served', async () => {
  const database = await postgresForTest({ isMigrated: false });
  const folder = mkdtempSync(join(tmpdir(), 'signpost-migrations-'));
  const root = join(packageRoot(), 'pg-migrations');
  for (const file of readdirSync(root).filter((name) => name < '0510'))
    copyFileSync(join(root, file), join(folder, file));
  await migratePostgres({ url: database.url, folder });
  const postgres = new Postgres({ url: database.url, name: 'test' });
  await postgres.execute(`INSERT INTO organizations (id, name) VALUES ('o', 'o')`);
  await postgres.execute(
    `INSERT INTO apps (id, organization_id, name, host, settings, api_key_ciphertext, api_key_hash, api_key_preview, created_at, updated_at)
     VALUES ('a', 'o', 'a', 'go.before.example', '{}', '', '', '', now(), now())`,
  );
  expect(await migratePostgres({ url: database.url })).toContain('0510_host_verification');
  expect([...(await readApps(postgres, ['go.before.example'])).keys()]).toEqual(['go.before.example']);
  expect(await postgres.query('SELECT FROM host_checks')).toEqual([]);
  await postgres.close();
  await database.stop();
  rmSync(folder, { recursive: true });
});
