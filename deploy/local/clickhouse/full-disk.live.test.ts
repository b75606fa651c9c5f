/** ClickHouse of npm start on a separate disk that is nearly full. Skipped without permission to mount one. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { builtClickHouse, startClickHouse } from './spawn.ts';

const MIB = 1_048_576;
const disk = mkdtempSync(join(tmpdir(), 'signpost-full-disk-'));
const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=128m,mode=0700', 'tmpfs', disk]).status === 0;
let server: LocalServer;
let client: ClickHouse;

beforeAll(async () => {
  if (!isMounted) return;
  const dataDir = join(disk, 'clickhouse');
  mkdirSync(dataDir, { mode: 0o700 });
  server = await startClickHouse({ dataDir, entry: builtClickHouse() });
  client = new ClickHouse({ url: server.url });
});

afterAll(async () => {
  await client?.close();
  await server?.stop();
  if (isMounted) spawnSync('umount', [disk]);
  rmSync(disk, { recursive: true, force: true });
});

test.skipIf(!isMounted)(
  'nothing is merged while the disk is nearly full, rows are still stored, and merges resume once there is room',
  async () => {
    await client.command('CREATE TABLE kept (n UInt64) ENGINE = MergeTree ORDER BY n');
    const partsAfterMerge = async () => {
      await client.command('OPTIMIZE TABLE kept FINAL').catch(() => undefined);
      const sql = "SELECT count() AS parts FROM system.parts WHERE table = 'kept' AND active";
      return Number((await client.query<{ parts: number }>(sql))[0]?.parts);
    };
    let inserted = 0;
    const insert = () => client.command(`INSERT INTO kept VALUES (${inserted++})`);
    await insert();
    const others = join(disk, 'others');
    const { bavail, bsize } = statfsSync(disk);
    writeFileSync(others, Buffer.alloc(bavail * bsize - 8 * MIB));
    const partsWithTwoMore = async () => {
      await Promise.all([insert(), insert()]);
      return partsAfterMerge();
    };
    await expect.poll(partsWithTwoMore, { timeout: 20_000 }).toBeGreaterThan(1);
    const parts = await partsAfterMerge();
    expect(await partsWithTwoMore()).toBe(parts + 2);
    rmSync(others);
    await expect.poll(partsAfterMerge, { timeout: 20_000 }).toBe(1);
    expect(await client.query('SELECT toUInt32(count()) AS rows FROM kept')).toEqual([{ rows: inserted }]);
  },
);
