import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { audit } from '#clickhouse/queries/audit.ts';
import { clickhouseForTest, type TestDatabase } from '#deploy/local/test-servers.ts';
import { makeRecords, makeTenant, randomFrom, storeRecords } from './records-for-test.ts';

const from_ms = Date.parse('2026-03-28T00:00:00Z');
const to_ms = Date.parse('2026-04-02T00:00:00Z');
const tenant = makeTenant(2, 5, from_ms);
const records = makeRecords(randomFrom(3), tenant, 6_000, from_ms, to_ms);
let store: TestDatabase;
let client: ClickHouse;

beforeAll(async () => {
  store = await clickhouseForTest();
  client = new ClickHouse({ url: store.url });
  await storeRecords(client, records, 'audited');
});
afterAll(async () => {
  await client.close();
  await store.stop();
});

const report = () => audit(client, { from_ms, to_ms });
/** Runs a change, looks, and undoes it. */
async function after(change: string, undo: string) {
  await client.command(change, {}, { mutations_sync: '2', lightweight_deletes_sync: '2' });
  const found = await report();
  await client.command(undo, {}, { mutations_sync: '2', lightweight_deletes_sync: '2' });
  expect(await report()).toMatchObject({ duplicated: 0, rollup_difference: 0 });
  return found;
}

test('figures that are what their records make are found to be so', async () => {
  const days: string[] = [];
  const found = await audit(client, { from_ms, to_ms }, (day) => days.push(day));
  expect(found).toEqual({
    from: '2026-03-28T00:00:00.000Z',
    to: '2026-04-02T00:00:00.000Z',
    days: 5,
    records: 6_000,
    duplicated: 0,
    rollup_difference: 0,
    faults: [],
  });
  expect(days.length).toBe(5);
});

test.each([
  'clicks_by_link',
  'clicks_by_dimension',
  'installs_by_link',
  'installs_by_dimension',
  'events_by_link',
  'events_by_dimension',
])('a wrong row planted in %s is found, at its hour and app', async (table) => {
  const place = table.endsWith('_by_link') ? "'lnk_x'" : "'quarter'";
  const column = table.endsWith('_by_link') ? 'link_id' : 'dimension';
  const found = await after(
    `INSERT INTO ${table} (organization_id, app_id, ${column}, bucket, rows) VALUES ('org_planted', 'app_planted', ${place}, '2026-03-30 00:00:00', 3)`,
    `DELETE FROM ${table} WHERE organization_id = 'org_planted'`,
  );
  expect(found.faults).toEqual([
    {
      fault: 'rollup_differs',
      table,
      organization_id: 'org_planted',
      app_id: 'app_planted',
      bucket: '2026-03-30T00:00:00.000Z',
      rows: 3,
      cells: 1,
    },
  ]);
});

test('a wrong amount is found where the number of rows is right', async () => {
  const [row] = await client.query<{ organization_id: string; app_id: string }>(
    "SELECT organization_id, app_id FROM events_by_dimension WHERE dimension = 'day' AND revenue_currency = 'EUR' AND bucket = '2026-03-30 00:00:00' LIMIT 1",
  );
  const cell = `'${row?.organization_id}', '${row?.app_id}', 'day', 'EUR', '2026-03-30 00:00:00', 0`;
  const insert = `INSERT INTO events_by_dimension (organization_id, app_id, dimension, revenue_currency, bucket, rows, revenue) VALUES`;
  const found = await after(`${insert} (${cell}, 0.001)`, `${insert} (${cell}, -0.001)`);
  expect(found.rollup_difference).toBe(1);
});

test('a batch that was stored twice is found, though raw rows and rollups agree', async () => {
  const few = records.filter((record) => record.kind === 'clicks').slice(0, 40);
  await storeRecords(client, few, 'once');
  expect(await report()).toMatchObject({ duplicated: 0, rollup_difference: 0 });
  await client.command(
    "INSERT INTO clicks SELECT * FROM clicks WHERE batch_id = 'once'",
    {},
    { insert_deduplicate: 0, async_insert: 0 },
  );
  const found = await report();
  expect(found).toMatchObject({ duplicated: 40, rollup_difference: 0 });
  expect(found.faults.every((fault) => fault.fault === 'record_stands_twice')).toBe(true);
});

test.each(['clicks', 'installs', 'events'])('a row deleted from %s is found in both of its rollups', async (kind) => {
  const before = (await report()).faults.length;
  const [row] = await client.query<{ time: string; batch_id: string; frame_no: number; idx: number }>(
    `SELECT toString(time) AS time, batch_id, frame_no, idx FROM ${kind} WHERE batch_id = 'audited' LIMIT 1`,
  );
  await client.command(
    `DELETE FROM ${kind} WHERE batch_id = 'audited' AND frame_no = ${row?.frame_no} AND idx = ${row?.idx}`,
    {},
    { lightweight_deletes_sync: '2' },
  );
  const { faults } = await report();
  const tables = faults.slice().map((fault) => fault.table);
  expect(faults.length).toBeGreaterThan(before);
  expect(tables).toEqual(expect.arrayContaining([`${kind}_by_link`, `${kind}_by_dimension`]));
  expect(faults.find((fault) => fault.table === `${kind}_by_link`)?.rows).toBe(1);
});
