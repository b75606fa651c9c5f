/** Tests that the table of fences stays small, and that no fence is lowered while it is replaced. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { systemTime } from '#common/time.ts';
import { clickhouseForTest, type TestDatabase } from '#testing/servers.ts';
import { ClickHouseStore } from './clickhouse-store.ts';
import { FenceCompaction } from './fence-compaction.ts';
import { FENCE_REACH } from './raw-store.ts';

let store: TestDatabase;
let client: ClickHouse;
beforeAll(async () => {
  store = await clickhouseForTest();
  client = new ClickHouse({ url: store.url });
});
afterAll(async () => {
  await client.close();
  await store.stop();
});

const always = () => new FenceCompaction(client, 0);
const fenceOf = async (partition: number) => {
  const [row] = await client.query<{ min: number; owner: string }>(
    "SELECT joinGet('fences', 'batch_no_min', toUInt16({partition:UInt16})) AS min, joinGet('fences', 'owner', toUInt16({partition:UInt16})) AS owner",
    { partition },
  );
  return row;
};
const tableIds = () =>
  client.query<{ name: string; uuid: string }>(
    "SELECT name, toString(uuid) AS uuid FROM system.tables WHERE database = currentDatabase() AND startsWith(name, 'fences')",
  );
const bytes = async () => {
  const [row] = await client.query<{ n: number }>(
    "SELECT assumeNotNull(total_bytes) AS n FROM system.tables WHERE database = currentDatabase() AND name = 'fences'",
  );
  return Number(row?.n);
};

test('a thousand raises leave a small table, in which each fence is as high as it was raised', async () => {
  const raised = new ClickHouseStore(client, systemTime);
  const first = await raised.fence(1, 1_000, 'one', true);
  expect(first).toEqual({ batchNoMin: FENCE_REACH, owner: 'one' });
  const empty = await bytes();
  // As many as a partition has in a week.
  for (let n = 1; n <= 1_000; n += 200) {
    const rows = Array.from({ length: 200 }, (_, k) => `INSERT INTO fences SELECT 2, ${n + k}, 'two'`);
    await Promise.all(rows.map((sql) => client.command(sql, {}, { async_insert: 0 })));
  }
  await client.command("INSERT INTO fences SELECT 2, 5000000, 'two'", {}, { async_insert: 0 });
  const [before] = await tableIds();
  expect(await bytes()).toBeGreaterThan(empty + 4_194_304);
  expect(await raised.fence(1, 2_000_000, 'one', false)).toEqual({ batchNoMin: 2_000_000, owner: 'one' });
  const [after, ...others] = await tableIds();
  expect(others).toEqual([]);
  expect(after?.uuid).not.toBe(before?.uuid);
  expect(await bytes()).toBeLessThan(empty + 100_000);
  expect(await fenceOf(1)).toEqual({ min: 2_000_000, owner: 'one' });
  expect(await fenceOf(2)).toEqual({ min: 5_000_000, owner: 'two' });
  expect(await raised.partitions()).toEqual([1, 2]);
});

test('owners that raise their fences while others compact see them in force, and none is ever lowered', async () => {
  const partitions = [10, 11, 12];
  const floors = new Map<number, number>();
  let isDone = false;
  const compacting = [0, 1].map(async () => {
    while (!isDone) await always().run();
  });
  const lowered: string[] = [];
  const watching = (async () => {
    while (!isDone) {
      for (const partition of partitions) {
        const floor = floors.get(partition) ?? 0;
        const now = Number((await fenceOf(partition))?.min);
        if (now < floor) lowered.push(`${partition}: ${now} < ${floor}`);
      }
    }
  })();
  const raising = partitions.map(async (partition) => {
    const raised = new ClickHouseStore(client, systemTime);
    let { batchNoMin } = await raised.fence(partition, 1, `owner ${partition}`, true);
    for (let n = 0; n < 15; n++) {
      floors.set(partition, batchNoMin);
      const next = await raised
        .fence(partition, batchNoMin + 1, `owner ${partition}`, false)
        .catch((error: unknown) => error);
      if (next instanceof Error) continue;
      expect(next).toEqual({ batchNoMin: batchNoMin + 1, owner: `owner ${partition}` });
      batchNoMin++;
    }
    return batchNoMin;
  });
  const ends = await Promise.all(raising);
  isDone = true;
  await Promise.all([...compacting, watching]);
  expect(lowered).toEqual([]);
  expect(ends.some((end) => end > FENCE_REACH + 5)).toBe(true);
});

test('a raise ends a compaction that a process left behind at any step, so that a late exchange changes nothing', async () => {
  const raised = new ClickHouseStore(client, systemTime);
  const { batchNoMin } = await raised.fence(20, 1, 'kept', true);
  const steps = [
    'CREATE TABLE fences_next_left AS fences',
    'INSERT INTO fences_next_left SELECT log_partition, batch_no_min, owner FROM fences',
    'EXCHANGE TABLES fences AND fences_next_left',
  ];
  for (let done = 1; done <= steps.length; done++) {
    for (const step of steps.slice(0, done)) await client.command(step);
    const next = batchNoMin + done;
    expect(await raised.fence(20, next, 'kept', false)).toEqual({ batchNoMin: next, owner: 'kept' });
    for (const late of steps.slice(done)) await expect(client.command(late)).rejects.toThrow();
    expect(await fenceOf(20)).toEqual({ min: next, owner: 'kept' });
    expect(await tableIds()).toHaveLength(1);
  }
});
