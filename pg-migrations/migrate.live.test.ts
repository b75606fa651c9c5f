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

test('a version refuses a database that a newer version has migrated', async () => {
  const database = await postgresForTest({ isMigrated: false });
  const folder = mkdtempSync(join(tmpdir(), 'signpost-migrations-'));
  writeFileSync(join(folder, '0001_first.sql'), 'CREATE TABLE steps (name text);');
  writeFileSync(join(folder, '0002_newer.sql'), 'CREATE TABLE newer (name text);');
  await migratePostgres({ url: database.url, folder });
  rmSync(join(folder, '0002_newer.sql'));
  writeFileSync(join(folder, '0003_other.sql'), 'CREATE TABLE other (name text);');
  await expect(migratePostgres({ url: database.url, folder })).rejects.toThrow(
    /migration 0002_newer, which this version/,
  );
  const postgres = new Postgres({ url: database.url, name: 'test' });
  expect(await postgres.query("SELECT to_regclass('other') AS other")).toEqual([{ other: null }]);
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

test('the migration of webhook messages runs beside old processes that deliver, whatever they have locked', async () => {
  // A transaction of an old process: first and last statement, before and after the migration waits for its locks.
  const attempt = `INSERT INTO webhook_attempts (endpoint_id, organization_id, message_id, type, url, attempted_at, duration_ms, outcome)
    VALUES ('e', 'o', 'm', 't', 'https://x.example', now(), 1, 'delivered')`;
  const message = "UPDATE webhook_messages SET tries = tries + 1 WHERE id = 'm'";
  const endpoint = "UPDATE webhook_endpoints SET failing_since = now() WHERE id = 'e'";
  for (const [before, after] of [
    [[attempt, message], [endpoint]],
    [[attempt], [message, endpoint]],
    [[endpoint], [attempt, message]],
    [[endpoint, attempt], [message]],
    [[message], [endpoint]],
  ]) {
    const database = await postgresForTest({ isMigrated: false });
    const folder = mkdtempSync(join(tmpdir(), 'signpost-migrations-'));
    const root = join(packageRoot(), 'pg-migrations');
    for (const file of readdirSync(root).filter((name) => name < '0950'))
      copyFileSync(join(root, file), join(folder, file));
    await migratePostgres({ url: database.url, folder });
    const postgres = new Postgres({ url: database.url, name: 'test' });
    await postgres.execute(`INSERT INTO organizations (id, name) VALUES ('o', 'o')`);
    await postgres.execute(
      `INSERT INTO webhook_endpoints (id, organization_id, url, events, secret_ciphertext, created_at, updated_at)
       VALUES ('e', 'o', 'https://x.example', '{link.created}', '', now(), now())`,
    );
    await postgres.execute(
      `INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data) VALUES ('m', 'e', 'o', 't', now(), '{}')`,
    );
    let migration: Promise<string[]> | undefined;
    await postgres.transaction(async (queries) => {
      for (const sql of before ?? []) await queries.execute(sql);
      let isOver = false;
      migration = migratePostgres({ url: database.url });
      void migration.finally(() => {
        isOver = true;
      });
      const blocked = `SELECT FROM pg_stat_activity WHERE application_name = 'migrate' AND wait_event_type = 'Lock'`;
      await expect
        .poll(async () => isOver || (await postgres.query(blocked)).length > 0, { timeout: 20_000 })
        .toBe(true);
      for (const sql of after ?? []) await queries.execute(sql);
    });
    expect(await migration).toContain('0950_webhook_message_apps');
    await postgres.close();
    await database.stop();
    rmSync(folder, { recursive: true });
  }
});
