/** Tests the key columns of clicks and events, across the migration that adds them and an erasure. */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '#common/process/paths.ts';
import { clickhouseForTest } from '#testing/servers.ts';
import { ClickHouse } from './client.ts';
import { migrateClickHouse, readMigrations } from './migrate.ts';
import { eraseOrganization } from './queries/erase.ts';

const keysMigration = 15;

async function store(client: ClickHouse, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const params = { id, o: `org_${id}` };
    const at = "'app_1', toDateTime64('2026-01-02 03:04:05', 3, 'UTC')";
    await client.command(
      `INSERT INTO clicks (organization_id, click_id, app_id, time) SELECT {o:String}, {id:String}, ${at}`,
      params,
    );
    await client.command(
      `INSERT INTO events (organization_id, event_id, install_id, app_id, time) SELECT {o:String}, 'e', {id:String}, ${at}`,
      params,
    );
  }
}

function keysOf(client: ClickHouse) {
  return client.query<{ id: string; key: string; wanted: string }>(
    `SELECT * FROM (SELECT click_id AS id, toString(click_key) AS key, toString(cityHash64(click_id)) AS wanted FROM clicks
     UNION ALL SELECT install_id, toString(device_key), toString(cityHash64(app_id, install_id)) FROM events) ORDER BY id, key`,
  );
}

test('clicks and events have the keys of their ids, even if stored before the migration, and an erasure removes the keys', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signpost-keys-'));
  const database = await clickhouseForTest({ isMigrated: false });
  const client = new ClickHouse({ url: database.url });
  try {
    const all = join(packageRoot(), 'clickhouse', 'migrations');
    for (const { name } of readMigrations().slice(0, keysMigration - 1)) cpSync(join(all, name), join(folder, name));
    await migrateClickHouse(client, { retentionDays: 10_000, folder });
    await store(client, ['before', 'leaves']);
    await migrateClickHouse(client, { retentionDays: 10_000 });
    await store(client, ['after']);
    const stored = await keysOf(client);
    expect(stored.map(({ id }) => id)).toEqual(['after', 'after', 'before', 'before', 'leaves', 'leaves']);
    for (const { key, wanted } of stored) expect(key).toBe(wanted);
    for (const table of ['clicks', 'events']) await client.command(`OPTIMIZE TABLE ${table} FINAL`);
    expect(await keysOf(client)).toEqual(stored);

    await eraseOrganization(client, 'org_leaves', async (days) => days);
    const left = await keysOf(client);
    expect(left.map(({ id, key }) => [id, key])).toEqual([
      ['', '0'],
      ['', '0'],
      ...stored.filter(({ id }) => id !== 'leaves').map(({ id, key }) => [id, key]),
    ]);
  } finally {
    await client.close();
    await database.stop();
    rmSync(folder, { recursive: true });
  }
});
