import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { clickColumns, clickRow } from './click-rows.ts';
import { builtClickHouse, startClickHouse } from './spawn.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-once-'));
const database = 'signpost';
let server: LocalServer;
let client: ClickHouse;

async function open(): Promise<void> {
  server = await startClickHouse({ dataDir: folder, port: 0, entry: builtClickHouse() });
  client = new ClickHouse({ url: `${server.url}/${database}` });
}

beforeAll(async () => {
  await open();
  // Longer than a DateTime can represent: nothing may be dropped because of that.
  await migrateClickHouse(client, { retentionDays: 36_500 });
});

afterAll(async () => {
  await client.close();
  await server.stop();
  rmSync(folder, { recursive: true });
});

function insert(token: string, rows: readonly unknown[][]) {
  const bytes = Buffer.from(rows.map((row) => JSON.stringify(row)).join('\n'));
  return client.insert('clicks', bytes, { token, format: 'JSONCompactEachRow', columns: clickColumns });
}

/** Rows of a batch in the raw table, and of its link (each batch of these tests has its own) in the rollup. */
async function stored(batch: string) {
  const [raw] = await client.query<{ rows: number; clicks: number; visitors: number }>(
    `SELECT count() AS rows, countIf(NOT is_bot) AS clicks, uniqExactIf(visitor, NOT is_bot) AS visitors
     FROM clicks WHERE batch_id = {batch:String}`,
    { batch },
  );
  const [rollup] = await client.query<{ rows: number; clicks: number; visitors: number }>(
    `SELECT sum(r.rows) AS rows, sumIf(r.rows, NOT is_bot) AS clicks,
       uniqCombinedMergeIf(15)(visitors, NOT is_bot) AS visitors
     FROM clicks_by_link AS r WHERE link_id = {link:String}`,
    { link: `lnk_${batch}` },
  );
  return { raw, rollup };
}

function both(rows: number, clicks: number, visitors: number) {
  return { raw: { rows, clicks, visitors }, rollup: { rows, clicks, visitors } };
}

const rowsOf = (batch: string, count: number) => Array.from({ length: count }, (_, idx) => clickRow(batch, idx));

test('the same token twice is stored once, in the raw table and in the rollup', async () => {
  const rows = rowsOf('twice', 10_000);
  for (let times = 0; times < 3; times++) {
    const outcome = await insert('token-twice', rows);
    expect(outcome.kind).toBe('written');
    if (outcome.kind === 'written') expect(outcome.rows).toBeGreaterThanOrEqual(10_000);
  }
  // Every tenth is a bot; a hundred visitors.
  expect(await stored('twice')).toEqual(both(10_000, 9_000, 90));
});

test('the same token twice is stored once in a binary format too, whatever bytes it has', async () => {
  await client.command(
    'CREATE TABLE bytes (s String) ENGINE = MergeTree ORDER BY s SETTINGS non_replicated_deduplication_window = 100',
  );
  // Two rows: one with two line breaks, which would end a text, and one with a semicolon and a NUL.
  const bytes = Buffer.from('\u0002\n\n\u0002;\0', 'latin1');
  for (let times = 0; times < 2; times++) {
    const outcome = await client.insert('bytes', bytes, { token: 'bytes', format: 'RowBinary', columns: ['s'] });
    expect(outcome).toEqual({ kind: 'written', rows: 2 });
  }
  expect(await client.query('SELECT hex(s) AS s FROM bytes ORDER BY s')).toEqual([{ s: '0A0A' }, { s: '3B00' }]);
});

test('two batches with the same rows and different tokens are both stored', async () => {
  const rows = rowsOf('both', 10);
  await insert('token-both-1', rows);
  await insert('token-both-2', rows);
  expect(await stored('both')).toEqual(both(20, 18, 9));
});

test('the same token at the same time from eight callers is stored once', async () => {
  const rows = rowsOf('race', 1_000);
  const outcomes = await Promise.all(Array.from({ length: 8 }, () => insert('token-race', rows)));
  expect(outcomes.some(({ kind }) => kind === 'written')).toBe(true);
  expect(await stored('race')).toEqual(both(1_000, 900, 90));
});

test('a time is stored with millisecond precision', async () => {
  await insert('token-time', [clickRow('time', 0, '2026-03-29T01:59:59.987Z')]);
  expect(await client.query("SELECT toString(time) AS time FROM clicks WHERE batch_id = 'time'")).toEqual([
    { time: '2026-03-29 01:59:59.987' },
  ]);
  expect(
    await client.query("SELECT toString(bucket) AS bucket FROM clicks_by_link WHERE link_id = 'lnk_time'"),
  ).toEqual([{ bucket: '2026-03-29 00:00:00' }]);
});

test('an invalid row rejects the whole insert', async () => {
  const rows = [...rowsOf('bad', 3), ['too', 'short']];
  expect((await insert('token-bad', rows)).kind).toBe('refused');
  expect((await stored('bad')).raw?.rows).toBe(0);
});

test('the raw table remembers a token across a restart and a kill', async () => {
  const rows = rowsOf('restart', 500);
  await insert('token-restart', rows);
  for (const end of ['stop', 'kill']) {
    await client.close();
    if (end === 'kill') server.kill('SIGKILL');
    await server.stop();
    await open();
    expect((await insert('token-restart', rows)).kind).toBe('written');
    expect((await stored('restart')).raw?.rows).toBe(500);
  }
});

test('acknowledged rows are stored after a kill in the middle of inserts', async () => {
  const answered: string[] = [];
  let tried = 0;
  for (let round = 0; round < 3; round++) {
    const isEnough = answered.length + 4;
    const inserts = async () => {
      for (;;) {
        const batch = `kill-${tried++}`;
        if ((await insert(`token-${batch}`, rowsOf(batch, 300))).kind !== 'written') return;
        answered.push(batch);
        if (answered.length >= isEnough) server.kill('SIGKILL');
      }
    };
    await Promise.all([inserts(), inserts()]);
    await client.close();
    await server.stop();
    await open();
  }
  expect(answered.length).toBeGreaterThanOrEqual(12);
  for (const batch of answered) expect(await stored(batch), batch).toEqual(both(300, 270, 90));
});
