/** Tests how migration files are read and split into statements. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { MigrationError, readMigrations, statementsOf } from './migrate.ts';

const placeholder = (name: string) => `\${${name}}`;

test('statements are split at the ends of lines, with placeholders filled in and comments left out', () => {
  const sql = `-- first;\nSELECT ';' AS ${placeholder('a')};\n\n  SELECT 2;\nSELECT 3`;
  expect(statementsOf(sql, new Map([['a', 'b']]))).toEqual(["SELECT ';' AS b", 'SELECT 2', 'SELECT 3']);
});

test('an unknown placeholder is an error, not an empty text', () => {
  expect(() => statementsOf(`SELECT ${placeholder('nothing')}`, new Map())).toThrow(MigrationError);
});

test('a gap in the numbers of migrations is an error', () => {
  const folder = mkdtempSync(join(tmpdir(), 'signpost-gap-'));
  writeFileSync(join(folder, '0001-a.sql'), 'SELECT 1');
  writeFileSync(join(folder, '0003-b.sql'), 'SELECT 1');
  expect(() => readMigrations(folder)).toThrow(/0003-b\.sql should be migration 2/);
  rmSync(folder, { recursive: true });
});

test('the migrations of the package are numbered without gaps and can run twice', () => {
  for (const { sql } of readMigrations()) {
    for (const created of sql.match(/^CREATE .*/gm) ?? []) expect(created).toContain('IF NOT EXISTS');
  }
});
