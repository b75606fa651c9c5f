/**
 * What retention would cost if it were read from something smaller than the events: `tsx bench/micro/active-days-cost.ts
 * [events] [installs]`. Compares the events themselves, the first and last event of each device and UTC day (as a view
 * on insert would keep them), and one row for each install with a bit for each active day (as a job would keep them).
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { type Cohorts, retained } from '#clickhouse/queries/cohorts.ts';
import type { Scope } from '#clickhouse/queries/scope.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { startClickHouse } from '#deploy/local/clickhouse/spawn.ts';

const [eventCount = 1_000_000, summaryCount = 1_000_000] = process.argv.slice(2).map(Number);
const installCount = eventCount / 10;
const rowsPerInsert = 10_000;
const rowsPerLargeInsert = 1_000_000;
const startMs = Date.UTC(2025, 0, 1);
const yearMs = 364 * DAY_MS;
const tenant = "'org_01jgfjjw000000000000000000' AS organization_id, 'app_01jgfjjw000000000000000000' AS app_id";
const settings = { max_threads: 2, max_memory_usage: 4_000_000_000, max_partitions_per_insert_block: 0 };
const rounds = 5;

const hash = (salt: number, what: string) => `(cityHash64(${salt}, ${what}) / 18446744073709551616)`;
const at = (ms: string) => `fromUnixTimestamp64Milli(toInt64(${ms}))`;
const installed = (install: string) => `${startMs} + ${hash(1, install)} * ${yearMs}`;
const name = (install: string) => `'i' || toString(${install}) || '-3f9a6b2c81d7' AS install_id`;

const folder = mkdtempSync(join(tmpdir(), 'active-days-cost-'));
const server = await startClickHouse({ dataDir: folder });
const client = new ClickHouse({ url: `${server.url}/bench`, requestTimeoutMs: HOUR_MS });
try {
  await migrateClickHouse(client, { retentionDays: 3_650 });
  for (const table of ['installs', 'events']) {
    for (const view of ['link', 'dimension']) await client.command(`DROP TABLE ${table}_by_${view}_view`);
  }
  await fill('installs', installCount, rowsPerLargeInsert, `${name('number')}, ${at(installed('number'))} AS time`);
  const events = (n: string) =>
    `'e' || toString(${n}) AS event_id, 'opened' AS name, ${name(`${n} % ${installCount}`)}, ${at(`${installed(`${n} % ${installCount}`)} + pow(${hash(3, n)}, 3) * ${60 * DAY_MS}`)} AS time`;
  const sample = Math.min(500_000, eventCount);
  const withoutView = await cost(() => fill('events', sample, rowsPerInsert, events('number')));
  await client.command('TRUNCATE TABLE events');
  await client.command(`CREATE TABLE device_days (organization_id LowCardinality(String), app_id LowCardinality(String), day Date,
    device FixedString(16), first SimpleAggregateFunction(min, DateTime64(3)), last SimpleAggregateFunction(max, DateTime64(3)))
    ENGINE = AggregatingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (organization_id, app_id, day, device)`);
  await client.command(`CREATE MATERIALIZED VIEW device_days_view TO device_days AS SELECT organization_id, app_id, toDate(time) AS day,
    sipHash128(app_id, install_id) AS device, min(time) AS first, max(time) AS last FROM events WHERE install_id != '' AND sign = 1
    GROUP BY organization_id, app_id, day, device`);
  const withView = await cost(() => fill('events', sample, rowsPerInsert, events('number')));
  console.log(
    `a view on insert: ${(((withView - withoutView) * 1_000) / sample).toFixed(1)} µs of CPU for each event, merges included (${((withoutView * 1_000) / sample).toFixed(1)} without it)`,
  );
  await fill('events', eventCount - sample, rowsPerLargeInsert, events(`(number + ${sample})`));
  await client.command('OPTIMIZE TABLE device_days FINAL');
  await rowsOf('events');
  await rowsOf('device_days');

  const scope: Scope = {
    organization_ids: ['org_01jgfjjw000000000000000000'],
    start_ms: startMs,
    end_ms: startMs + yearMs,
    filters: {},
    include_bots: true,
  };
  const slots_ms = Array.from({ length: 52 }, (_, week) => startMs + week * 7 * DAY_MS);
  const weekly: Cohorts = { slots_ms, days: [1, 3, 7, 14, 30], observed_ms: startMs + yearMs + 90 * DAY_MS };
  const today = retained(scope, weekly, { isUnbounded: false, events: [] });
  const fromEvents = await measure('from the events', today.sql, today.params);

  // The install divides a UTC day into two of its own days: `first` is in the earlier one if it is before that moment,
  // and `last` in the later one if it is not.
  const days = '{days:Array(Int64)}';
  const age = (time: string) => `intDiv(greatest(toUnixTimestamp64Milli(${time}) - i.installed, 0), ${DAY_MS})`;
  const place = (time: string) => `indexOf(${days}, ${age(time)})`;
  const bit = (time: string) =>
    `toUInt64(if(${place(time)} = 0, 0, bitShiftLeft(toUInt64(1), toUInt8(greatest(${place(time)}, 1) - 1))))`;
  const hasCompleted = `installed + (day + 1) * ${DAY_MS} <= {observed_ms:Int64}`;
  const counted = `sumForEach(arrayMap((day, no) -> toUInt64(${hasCompleted} AND bitTest(activity, no - 1)), ${days}, arrayEnumerate(${days}))) AS retained`;
  const tenantOnly = 'organization_id IN {organization_ids:Array(String)}';
  const fromDays = await measure(
    'from device days',
    `SELECT slot, '' AS grp, ${counted} FROM (
      SELECT any(i.slot) AS slot, i.installed AS installed, groupBitOr(bitOr(${bit('e.first')}, ${bit('e.last')})) AS activity
      FROM (SELECT device, first, last FROM device_days WHERE ${tenantOnly}) AS e INNER JOIN (
        SELECT sipHash128(app_id, install_id) AS device, toUnixTimestamp64Milli(time) AS installed,
          roundDown(toUnixTimestamp64Milli(time), {slots:Array(Int64)}) AS slot FROM installs WHERE ${tenantOnly}) AS i USING (device)
      GROUP BY device, i.installed HAVING activity > 0) GROUP BY slot, grp`,
    { ...today.params, organization_ids: scope.organization_ids },
  );
  console.log(`the same figures: ${fromEvents === fromDays}`);

  await client.command(`CREATE TABLE install_activity (organization_id LowCardinality(String), app_id LowCardinality(String),
    installed DateTime64(3), device FixedString(16), active UInt64) ENGINE = MergeTree PARTITION BY toYYYYMM(installed)
    ORDER BY (organization_id, app_id, installed)`);
  await fill(
    'install_activity',
    summaryCount,
    rowsPerLargeInsert,
    `${at(installed('number'))} AS installed, sipHash128(number) AS device, cityHash64(number) AS active`,
  );
  await rowsOf('install_activity');
  await measure(
    'from one row for each install',
    `SELECT roundDown(toUnixTimestamp64Milli(installed), {slots:Array(Int64)}) AS slot,
      sumForEach(arrayMap(day -> toUInt64(toUnixTimestamp64Milli(installed) + (day + 1) * ${DAY_MS} <= {observed_ms:Int64} AND bitTest(active, day)), ${days})) AS retained
    FROM install_activity WHERE ${tenantOnly} GROUP BY slot`,
    { ...today.params, organization_ids: scope.organization_ids },
  );
} finally {
  await client.close();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function fill(table: string, count: number, perInsert: number, columns: string): Promise<void> {
  const names = [...columns.matchAll(/ AS (\w+)(?=,|$)/g)].map(([, found]) => found).join(', ');
  for (let from = 0; from < count; from += perInsert) {
    await client.command(
      `INSERT INTO ${table} (organization_id, app_id, ${names}) SELECT ${tenant}, ${columns} FROM numbers(${from}, ${Math.min(perInsert, count - from)})`,
      {},
      settings,
    );
  }
}

async function rowsOf(table: string): Promise<void> {
  const [found] = await client.query<{ rows: number; mib: number }>(
    `SELECT sum(rows) AS rows, round(sum(data_compressed_bytes) / 1048576) AS mib FROM system.parts WHERE table = '${table}' AND active`,
  );
  console.log(`${table}: ${found?.rows} rows, ${found?.mib} MiB`);
}

/** CPU time of the server so far: clock ticks of /proc are hundredths of a second. */
function cpuMs(): number {
  const fields = readFileSync(`/proc/${server.pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

async function cost(run: () => Promise<void>): Promise<number> {
  const before = cpuMs();
  await run();
  return cpuMs() - before;
}

/** The rows, in an order of their own. */
async function measure(what: string, sql: string, params: Record<string, unknown>): Promise<string> {
  let rows: unknown[] = [];
  const times: number[] = [];
  const cpu = await cost(async () => {
    for (let round = 0; round < rounds; round++) {
      const begunMs = performance.now();
      rows = await client.query(sql, params, settings);
      times.push(performance.now() - begunMs);
    }
  });
  const slowest = Math.max(...times).toFixed(0);
  console.log(`${what}: CPU ${(cpu / rounds).toFixed(0)} ms for each query, at most ${slowest} ms`);
  return rows
    .map((row) => JSON.stringify(row))
    .sort()
    .join('\n');
}
