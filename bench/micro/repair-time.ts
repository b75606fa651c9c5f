/**
 * Measures how long it takes to find out what became of a batch, and to complete it, depending on how many clicks of
 * that day are stored already: `node deploy/packages/run.mjs bench/micro/repair-time.ts [millions of rows a day …]`, in growing order. The batch
 * is in the raw table and in none of its rollups. Then ClickHouse is killed with one more such batch, and the checks of
 * a new owner are timed once it is up again.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { systemTime } from '#common/time.ts';
import { startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import { ClickHouseStore } from '#ingest/clickhouse-store.ts';

const sizes = process.argv.length > 2 ? process.argv.slice(2).map(Number) : [1, 10, 50];
const batchRows = 20_000;
const batchesEach = 10;
const rowsPerInsert = 1_000_000;
const links = 20_000;
const views = ['clicks_by_link_view', 'clicks_by_dimension_view'];

/**
 * The statement that stores realistic clicks, in which a few links have most clicks. They are numbered as batches of
 * the usual size.
 */
function clicksFrom(start: number, count: number, startOfTime: number): string {
  const at = `{from:Int64} + toInt64(floor((number + ${startOfTime}) * {step:Float64}))`;
  return `INSERT INTO clicks (click_id, organization_id, app_id, link_id, time, platform, country, campaign, user_agent, visitor,
      log_partition, batch_no, producer_id, frame_no, idx)
    SELECT hex(cityHash64(number + ${start})), concat('org_', toString(link % 20)), concat('app_', toString(link % 20)),
      concat('lnk_', toString(link)), fromUnixTimestamp64Milli(${at}), ['ios', 'android', 'desktop'][1 + number % 3],
      concat('C', toString(cityHash64(number) % 40)), if(link % 10 < 3, '', concat('campaign_', toString(link % 40))),
      'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15', cityHash64(number) % 5000000,
      0, {first:UInt64} + intDiv(number + ${start}, ${batchRows}), 'pppppppppppppppppppppppppp', intDiv(number + ${start}, 500), (number + ${start}) % 500
    FROM (SELECT number, toUInt32(floor(pow(cityHash64(number + ${start}, 7) % 1000003 / 1000003., 3) * ${links})) AS link FROM numbers(${count}))`;
}

const settings = {
  insert_deduplicate: 0,
  async_insert: 0,
  max_insert_threads: 1,
  max_execution_time: 3_600,
  max_memory_usage: 6_000_000_000,
};

const folder = mkdtempSync(join(tmpdir(), 'repair-time-'));
let server = await startClickHouse({ dataDir: join(folder, 'clickhouse'), port: 0 });
const client = new ClickHouse({ url: `${server.url}/repair`, requestTimeoutMs: HOUR_MS });
await migrateClickHouse(client, { retentionDays: 730 });
const store = new ClickHouseStore(client, systemTime);
await store.fence(0, 1, 'bench', true);
const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
const month = new Date(today - 1).toISOString().slice(0, 7).replace('-', '');
const time_from = today - 60_000;
const part = { table: 'clicks', partition: month, rows: batchRows, time_from, time_to: today - 1 };
const selects = await client.query<{ name: string; as_select: string }>(
  'SELECT name, as_select FROM system.tables WHERE database = currentDatabase() AND name IN {views:Array(String)}',
  { views },
);
/** The number of stored rows, and the number of the newest batch. */
let stored = 0;
let batchNo = Date.now();

/** Inserts rows, spread over the day, until this many are stored. */
async function fill(rows: number): Promise<void> {
  const [from, step] = [today - DAY_MS, DAY_MS / (rows - stored)];
  const first = batchNo + 1 - Math.floor(stored / batchRows);
  for (let done = 0, count = rows - stored; done < count; done += rowsPerInsert) {
    const some = Math.min(rowsPerInsert, count - done);
    await client.command(clicksFrom(stored, some, done), { from, step, first }, settings);
    stored += some;
  }
  batchNo = first + Math.ceil(stored / batchRows);
}

/** Inserts the next batch into the raw table only. */
async function insertWithoutRollups(): Promise<{ partition: number; batch_no: number }> {
  for (const { name, as_select } of selects) {
    await client.command(`ALTER TABLE ${name} MODIFY QUERY SELECT * FROM (${as_select}) WHERE 0`);
  }
  const first = ++batchNo - Math.floor(stored / batchRows);
  await client.command(
    clicksFrom(stored, batchRows, 0),
    { from: time_from, step: 60_000 / batchRows, first },
    settings,
  );
  stored += batchRows;
  for (const { name, as_select } of selects) await client.command(`ALTER TABLE ${name} MODIFY QUERY ${as_select}`);
  return { partition: 0, batch_no: batchNo };
}

async function complete(batch: { partition: number; batch_no: number }, missing: readonly string[]): Promise<void> {
  const fence = await store.fence(0, 1, 'bench', false);
  for (const rollup of missing) await store.fillIn(batch, part, rollup, fence);
  if ((await store.rollupsWithout(batch, part)).length > 0) throw new Error('the batch is not complete');
}

async function killed(): Promise<{ up: number; recovered: number }> {
  const batch = await insertWithoutRollups();
  server.kill('SIGKILL');
  await server.stop();
  const began = performance.now();
  server = await startClickHouse({ dataDir: join(folder, 'clickhouse'), port: server.port });
  const up = performance.now();
  await store.fence(0, batch.batch_no + 1, 'bench', false);
  const newest = await store.newestBatch(0, batch.batch_no - 1);
  const rows = await store.rowsOf(batch, part);
  if (newest.raw !== batch.batch_no || rows !== batchRows) throw new Error(`${rows} rows of ${newest.raw} are there`);
  await complete(batch, await store.rollupsWithout(batch, part));
  return { up: up - began, recovered: performance.now() - up };
}

function show(values: readonly number[]): string {
  const sorted = [...values].sort((a, b) => a - b);
  return `${sorted[sorted.length >> 1]?.toFixed(0)} ms (${sorted[0]?.toFixed(0)}–${sorted.at(-1)?.toFixed(0)})`;
}

for (const millions of sizes) {
  await fill(millions * 1_000_000);
  const figures: Record<'look' | 'complete', number[]> = { look: [], complete: [] };
  for (let n = 0; n < batchesEach; n++) {
    const batch = await insertWithoutRollups();
    const began = performance.now();
    const rows = await store.rowsOf(batch, part);
    const missing = await store.rollupsWithout(batch, part);
    const looked = performance.now();
    if (rows !== batchRows || missing.length !== views.length)
      throw new Error(`${rows} rows, without ${missing.join()}`);
    await complete(batch, missing);
    figures.look.push(looked - began);
    figures.complete.push(performance.now() - looked);
  }
  const { up, recovered } = await killed();
  const [parts] = await client.query<{ n: number }>(
    "SELECT count() AS n FROM system.parts WHERE database = currentDatabase() AND table = 'clicks' AND active",
  );
  console.log(
    `${String(millions).padStart(3)}M rows that day in ${parts?.n} parts: looked for in ${show(figures.look)}, completed in ${show(figures.complete)}; ` +
      `killed: up after ${up.toFixed(0)} ms, recovered ${recovered.toFixed(0)} ms later`,
  );
}
await client.close();
await server.stop();
rmSync(folder, { recursive: true });
