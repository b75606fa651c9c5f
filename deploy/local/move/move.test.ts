import { mkdirSync, mkdtempSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { exportStores, importStores, type Stores } from './move.ts';

let folder = '';
let stores: Stores;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-move-'));
  // No server is there: whatever asks one fails with ECONNREFUSED.
  stores = {
    postgres: new Postgres({ url: 'postgres://127.0.0.1:1/none', name: 'test' }),
    clickhouse: new ClickHouse({ url: 'http://127.0.0.1:1' }),
  };
});
afterEach(async () => {
  await Promise.all([stores.postgres.close(), stores.clickhouse.close()]);
  rmSync(folder, { recursive: true });
});

test('an export without one of its files, or with a part of export.json, is refused before a store is asked', async () => {
  const manifest = { tables: { links: 1, apps: 1 }, parts: [{ table: 'clicks', partition: '202601', rows: 1 }] };
  const files = ['postgres/links.jsonl.gz', 'postgres/apps.jsonl.gz', 'clickhouse/clicks-202601.tsv.gz'];
  for (const name of ['postgres', 'clickhouse']) mkdirSync(join(folder, name));
  for (const file of files) writeFileSync(join(folder, file), '');
  writeFileSync(join(folder, 'export.json'), JSON.stringify(manifest));
  await expect(importStores(stores, folder, false)).rejects.toThrow(/ECONNREFUSED|unavailable/);
  for (const file of files) {
    rmSync(join(folder, file));
    await expect(importStores(stores, folder, false)).rejects.toThrow(`incomplete: ${join(folder, file)} is missing`);
    writeFileSync(join(folder, file), '');
  }
  truncateSync(join(folder, 'export.json'), 20);
  await expect(importStores(stores, folder, false)).rejects.toThrow(/export.json is not whole. Nothing was imported/);
});

test('an export is not written into a folder that exists', async () => {
  await expect(exportStores(stores, folder)).rejects.toThrow(`${folder} already exists`);
  expect(readdirSync(folder)).toEqual([]);
});
