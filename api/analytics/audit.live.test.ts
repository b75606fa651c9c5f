import { afterAll, beforeAll, expect, test } from 'vitest';
import { isLearned, makeRecords, makeTenant, storeRecords } from '#api/testing/records.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import { audit, auditHour } from '#clickhouse/queries/audit.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { clickhouseForTest, type TestDatabase } from '#testing/servers.ts';

const from_ms = Date.parse('2026-03-28T00:00:00Z');
const to_ms = Date.parse('2026-04-02T00:00:00Z');
const tenant = makeTenant(2, 5, from_ms);
const records = makeRecords(seededRandom(3), tenant, 6_000, from_ms, to_ms);
const learned = records.filter(isLearned);
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

const report = (range = { from_ms, to_ms }) => audit(client, range);
const planted = Date.parse('2026-03-30T00:00:00Z');
const thatDay = { from_ms: planted, to_ms: planted + DAY_MS };
/** Applies a change to one day, audits it, and reverts the change. */
async function after(change: string, undo: string) {
  await client.command(change, {}, { mutations_sync: '2', lightweight_deletes_sync: '2' });
  const found = await report(thatDay);
  await client.command(undo, {}, { mutations_sync: '2', lightweight_deletes_sync: '2' });
  expect(await report(thatDay)).toMatchObject({ duplicated: 0, rollup_difference: 0 });
  return found;
}

test('the audit finds no fault in correct figures', async () => {
  const days: string[] = [];
  const found = await audit(client, { from_ms, to_ms }, (day) => days.push(day));
  expect(found).toEqual({
    from: '2026-03-28T00:00:00.000Z',
    to: '2026-04-02T00:00:00.000Z',
    days: 5,
    records: 6_000 + 2 * learned.length,
    lost: 0,
    duplicated: 0,
    rollup_difference: 0,
    ledger_from: null,
    expired: 0,
    faults: [],
  });
  expect(days.length).toBe(5);
});

const rollups = [
  'clicks_by_link',
  'events_by_dimension',
  'clicks_by_dimension',
  'installs_by_link',
  'installs_by_dimension',
  'events_by_link',
];
testCostlyCases(rollups, 2, 'a wrong row inserted into %s is found, with its hour and app', async (table) => {
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

test('a wrong amount is found even if the number of rows is right', { tags: ['slow'] }, async () => {
  const [row] = await client.query<{ organization_id: string; app_id: string }>(
    "SELECT organization_id, app_id FROM events_by_dimension WHERE dimension = 'day' AND revenue_currency = 'EUR' AND bucket = '2026-03-30 00:00:00' LIMIT 1",
  );
  const cell = `'${row?.organization_id}', '${row?.app_id}', 'day', 'EUR', '2026-03-30 00:00:00', 0`;
  const insert = `INSERT INTO events_by_dimension (organization_id, app_id, dimension, revenue_currency, bucket, rows, revenue) VALUES`;
  const found = await after(`${insert} (${cell}, 0.001)`, `${insert} (${cell}, -0.001)`);
  expect(found.rollup_difference).toBe(1);
});

test('a batch that was stored twice is found, although raw rows and rollups agree', async () => {
  const few = records
    .filter(({ kind, time }) => kind === 'clicks' && time >= thatDay.from_ms && time < thatDay.to_ms)
    .slice(0, 40);
  await storeRecords(client, few, 'once');
  expect(await report(thatDay)).toMatchObject({ duplicated: 0, rollup_difference: 0 });
  await client.command(
    "INSERT INTO clicks SELECT * FROM clicks WHERE batch_id = 'once'",
    {},
    { insert_deduplicate: 0, async_insert: 0 },
  );
  const found = await report(thatDay);
  expect(found).toMatchObject({ duplicated: 40, rollup_difference: 0 });
  expect(found.faults.every((fault) => fault.fault === 'record_stands_twice')).toBe(true);
});

const kinds = ['events', 'clicks', 'installs'];
testCostlyCases(kinds, 1, 'a row deleted from %s is found in both of its rollups', async (kind) => {
  const before = (await report(thatDay)).faults.length;
  const [row] = await client.query<{ time: string; batch_id: string; frame_no: number; idx: number }>(
    `SELECT toString(time) AS time, batch_id, frame_no, idx FROM ${kind} WHERE batch_id = 'audited' AND toDate(time) = '2026-03-30'
     ${kind === 'events' ? "AND (frame_no, idx) NOT IN (SELECT frame_no, idx FROM events WHERE batch_id = 'audited' AND is_learned)" : ''} LIMIT 1`,
  );
  await client.command(
    `DELETE FROM ${kind} WHERE batch_id = 'audited' AND frame_no = ${row?.frame_no} AND idx = ${row?.idx}`,
    {},
    { lightweight_deletes_sync: '2' },
  );
  const { faults } = await report(thatDay);
  const tables = faults.slice().map((fault) => fault.table);
  expect(faults.length).toBeGreaterThan(before);
  expect(tables).toEqual(expect.arrayContaining([`${kind}_by_link`, `${kind}_by_dimension`]));
  expect(faults.find((fault) => fault.table === `${kind}_by_link`)?.rows).toBe(1);
});

test('a frame missing between others is found, and so is one missing click of a frame', async () => {
  const hour_ms = Date.parse('2026-05-04T10:00:00Z');
  const range = { from_ms: hour_ms, to_ms: hour_ms + 1 };
  const click = (frame: number, idx: number, minute: number) =>
    `('c${frame}-${idx}', 'org_f', 'app_f', 'lnk_f', toDateTime64('2026-05-04 10:00:00', 3, 'UTC') + INTERVAL ${minute} MINUTE, 'edge-1', ${frame}, ${idx})`;
  const store = (...rows: string[]) =>
    client.command(
      `INSERT INTO clicks (click_id, organization_id, app_id, link_id, time, producer_id, frame_no, idx) VALUES ${rows.join(', ')}`,
    );
  await store(click(7, 0, 1), click(7, 1, 1), click(8, 0, 2), click(11, 0, 30), click(12, 0, 31), click(12, 2, 31));
  const found = await audit(client, range);
  expect(found).toMatchObject({ lost: 3, duplicated: 0, rollup_difference: 0 });
  const place = { fault: 'clicks_missing', table: 'clicks', organization_id: '', app_id: '', producer_id: 'edge-1' };
  const bucket = '2026-05-04T10:00:00.000Z';
  expect(found.faults).toEqual([
    { ...place, bucket, frame_no: 9, rows: 2, cells: 0 },
    { ...place, bucket, frame_no: 12, rows: 1, cells: 0 },
  ]);
  expect(await auditHour(client, hour_ms)).toEqual({
    figures: { lost: 3, duplicated: 0, rollup_difference: 0 },
    failures: [{ fault: 'lost', organization_id: null, app_id: null, count: null }],
  });
  // One is a dead letter, one was stored with a very different time, because its machine's clock was wrong.
  await client.command(
    "INSERT INTO dead_letters (kind, time, producer_id, frame_no, idx) VALUES ('click', '2026-05-04 10:20:00', 'edge-1', 9, 0)",
  );
  await store(click(10, 0, 60 * 24 * 40), click(12, 1, 31));
  expect(await audit(client, range)).toMatchObject({ lost: 0, faults: [] });
});

test('frames are counted by lane, because each log partition has its own frame numbers', async () => {
  const hour_ms = Date.parse('2026-05-05T10:00:00Z');
  const range = { from_ms: hour_ms, to_ms: hour_ms + 1 };
  for (const [table, id] of [
    ['clicks', 'click_id'],
    ['events', 'event_id'],
  ]) {
    const rows = [0, 1].flatMap((partition) =>
      [1, 2, 3]
        .filter((frame) => table === 'events' || partition === 0 || frame !== 2)
        .map(
          (frame) =>
            `('${partition}-${frame}', 'org_l', 'app_l', '2026-05-05 10:05:00', ${partition}, 'edge-2', ${frame}, 0)`,
        ),
    );
    await client.command(
      `INSERT INTO ${table} (${id}, organization_id, app_id, time, log_partition, producer_id, frame_no, idx) VALUES ${rows.join(', ')}`,
    );
  }
  const found = await audit(client, range);
  expect(found).toMatchObject({ records: 11, lost: 1, duplicated: 0, rollup_difference: 0 });
  expect(found.faults).toMatchObject([{ fault: 'clicks_missing', producer_id: 'edge-2', frame_no: 2 }]);
});

test('the audit of an hour finds the faults inserted into it, and none of the next hour', async () => {
  const hour_ms = Date.parse('2026-03-31T10:00:00Z');
  const { figures: before } = await auditHour(client, hour_ms);
  await client.command(
    "INSERT INTO events_by_dimension (organization_id, app_id, dimension, bucket, rows) VALUES ('org_h', 'app_h', 'quarter', '2026-03-31 10:15:00', 2)",
  );
  const few = records.filter((one) => one.kind === 'events' && Math.floor(one.time / HOUR_MS) * HOUR_MS === hour_ms);
  await storeRecords(client, few, 'an hour');
  await client.command(
    "INSERT INTO events SELECT * FROM events WHERE batch_id = 'an hour'",
    {},
    { insert_deduplicate: 0, async_insert: 0 },
  );
  const { figures, failures } = await auditHour(client, hour_ms);
  const { duplicated, rollup_difference } = figures;
  expect(few.length).toBeGreaterThan(0);
  expect(duplicated - before.duplicated).toBe(few.length + 2 * few.filter(isLearned).length);
  expect(rollup_difference - before.rollup_difference).toBe(1);
  expect(failures).toContainEqual({
    fault: 'rollup_difference',
    organization_id: 'org_h',
    app_id: 'app_h',
    count: 1,
  });
  const copies = failures.filter(({ fault }) => fault === 'duplicated');
  expect(copies.reduce((sum, { count }) => sum + (count ?? 0), 0)).toBe(duplicated);
  expect(copies.every(({ app_id }) => few.some((record) => record.app_id === app_id))).toBe(true);
  const nothing = { lost: 0, duplicated: 0, rollup_difference: 0 };
  expect(await auditHour(client, hour_ms + HOUR_MS)).toEqual({ figures: nothing, failures: [] });
});

const damages = [
  { what: 'is stored twice', change: 'INSERT INTO events SELECT * FROM events WHERE is_learned AND', copies: 2 },
  { what: 'has lost the event that it is about', change: 'DELETE FROM events WHERE NOT is_learned AND', copies: 1 },
  { what: 'has lost the row that takes the event back', change: 'DELETE FROM events WHERE sign = -1 AND', copies: 1 },
  {
    what: 'has lost the row that gives the event again',
    change: 'DELETE FROM events WHERE is_learned AND sign = 1 AND',
    copies: 1,
  },
].map((damage, n) => ({ ...damage, hour: n + 1 }));
testCostlyCases(damages, 2, 'a later attribution of an event that $what is found', async ({ change, copies, hour }) => {
  // Each fault in its own hour: within one hour, a surplus and a shortage could cancel out.
  const few = learned.slice(0, 1).map((one) => ({ ...one, time: planted + hour * HOUR_MS }));
  const batch = `learned ${change}`;
  await storeRecords(client, few, batch);
  const before = await report(thatDay);
  await client.command(
    `${change} batch_id = {batch:String}`,
    { batch },
    { insert_deduplicate: 0, async_insert: 0, lightweight_deletes_sync: '2' },
  );
  expect((await report(thatDay)).duplicated - before.duplicated).toBe(copies);
});
