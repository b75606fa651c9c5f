import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { migrateForTest } from '#testing/servers.ts';
import { clickColumns, clickRow } from './click-rows.ts';
import { builtClickHouse, type ClickHouseServerProcess, startClickHouse } from './spawn.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-freeze-'));
const copy = join(folder, 'copy');
const entry = builtClickHouse();
let server: ClickHouseServerProcess;
let client: ClickHouse;

beforeAll(async () => {
  server = await startClickHouse({ dataDir: join(folder, 'server'), port: 0, entry });
  client = new ClickHouse({ url: server.url });
  await migrateForTest(client);
});
afterAll(async () => {
  await client.close();
  await server.stop();
  rmSync(folder, { recursive: true });
});

function post(role: 'signpost' | 'reader', method = 'POST'): Promise<{ status: number; body: string }> {
  const { origin, username, password } = new URL(server.urlOf(role));
  return new Promise((done, fail) => {
    const asked = request(`${origin}/freeze`, { method, auth: `${username}:${password}` }, (answer) => {
      text(answer).then((body) => done({ status: answer.statusCode ?? 0, body }), fail);
    });
    asked.on('error', fail).end();
  });
}

async function insert(batch: string, rows: number): Promise<void> {
  const lines = Array.from({ length: rows }, (_, idx) => JSON.stringify(clickRow(batch, idx)));
  const body = Buffer.from(lines.join('\n'));
  const outcome = await client.insert('clicks', body, {
    token: batch,
    format: 'JSONCompactEachRow',
    columns: clickColumns,
  });
  expect(outcome.kind).toBe('written');
}

const figures = `SELECT (SELECT count() FROM clicks) AS raw, (SELECT sum(r.rows) FROM clicks_by_link AS r) AS rollup,
  joinGet('fences', 'owner', toUInt16(7)) AS owner`;

test('a copy made during inserts opens as a separate store, in which every rollup has exactly the rows of its raw table', async () => {
  await client.command("INSERT INTO fences SELECT 7, 1, 'someone'");
  let isDone = false;
  const inserts = [0, 1].map(async (lane) => {
    for (let number = 0; !isDone; number++) await insert(`batch-${lane}-${number}`, 50);
  });
  const rawRows = async () => Number((await client.query<{ raw: number }>(figures))[0]?.raw);
  await expect.poll(rawRows).toBeGreaterThan(0);
  const before = await rawRows();
  const made = await post('signpost');
  expect(made.status, made.body).toBe(200);
  cpSync(made.body.trim(), join(copy, 'store'), { recursive: true });
  await expect.poll(rawRows).toBeGreaterThan(before);
  isDone = true;
  await Promise.all(inserts);
  const copied = await startClickHouse({ dataDir: copy, port: 0, entry });
  const reader = new ClickHouse({ url: copied.url });
  try {
    const [row] = await reader.query<{ raw: number; rollup: number; owner: string }>(figures);
    expect(Number(row?.raw)).toBeGreaterThanOrEqual(before);
    expect(row).toMatchObject({ rollup: row?.raw, owner: 'someone' });
    expect(await migrateClickHouse(reader, { retentionDays: 36_500 })).toEqual([]);
  } finally {
    await reader.close();
    await copied.stop();
  }
});

test('a copy is rejected for the reader, for a GET, and while another copy is being made', async () => {
  expect((await post('reader')).status).toBe(403);
  expect((await post('signpost', 'GET')).status).toBe(405);
  // One copy may be finished before the other request arrives.
  const statuses = async () =>
    (await Promise.all([post('signpost'), post('signpost')])).map(({ status }) => status).sort();
  await expect.poll(statuses).toEqual([200, 500]);
});

test('starting the server removes a leftover copy', async () => {
  const { body } = await post('signpost');
  expect(existsSync(body.trim())).toBe(true);
  await server.stop();
  server = await startClickHouse({ dataDir: join(folder, 'server'), port: server.port, entry });
  expect(existsSync(body.trim())).toBe(false);
});
