import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '#common/process/paths.ts';

const pages = ['security.md', 'security-asvs.md', 'data-protection.md', 'durability.md', 'backup.md', 'upgrade.md'];

test.each(pages)('every test that docs/%s names exists', (page) => {
  const text = readFileSync(join(packageRoot(), 'docs', page), 'utf8');
  const named = [...text.matchAll(/`([\w./-]+\.(?:test|fault)\.ts)`/g)].map(([, file]) => file ?? '');
  expect(named.length).toBeGreaterThan(0);
  expect(named.filter((file) => !existsSync(join(packageRoot(), file)))).toEqual([]);
});

test('every requirement of ASVS is in the table once', () => {
  const text = readFileSync(join(packageRoot(), 'docs', 'security-asvs.md'), 'utf8');
  const rows = text.split('\n').filter((line) => /^\| \d/.test(line));
  const numbers = rows.flatMap((row) => (row.split('|')[1] ?? '').split(',').map((one) => one.trim()));
  expect(new Set(numbers).size).toBe(numbers.length);
  expect(rows.filter((row) => !/^\| [\d., –]+ \| [^|]+ \| (yes|code|part|no|–|operator) \|/.test(row))).toEqual([]);
});

test('every requirement of ASVS that is met names a test', () => {
  const text = readFileSync(join(packageRoot(), 'docs', 'security-asvs.md'), 'utf8');
  const met = text.split('\n').filter((line) => /^\| [\d., –]+ \| [^|]+ \| yes \|/.test(line));
  expect(met.length).toBeGreaterThan(50);
  expect(met.filter((row) => !/`[\w./-]+\.(?:test|fault)\.ts`/.test(row))).toEqual([]);
});
