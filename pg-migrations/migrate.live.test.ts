import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Postgres } from '#common/postgres.ts';
import { postgresForTest } from '#deploy/local/test-servers.ts';
import { migratePostgres } from './migrate.ts';

test('the project migrates, and a second time there is nothing to do', async () => {
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

test('files run in the order of their numbers, other files are passed over, a failing one undoes all', async () => {
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
