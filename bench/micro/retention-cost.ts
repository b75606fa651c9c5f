/**
 * Measures retention and revenue by age of 52 weeks of one large tenant: `node deploy/packages/run.mjs bench/micro/retention-cost.ts [events]
 * [repeats] [recorded events]`. There are ten events for each install, at most 60 days after it, one of them with
 * revenue in one of two currencies. The recorded events are stored as records, from which cells are made as ingest does
 * it. Then the cells of all events are inserted directly, and queried.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { readLimits } from '#api/parts.ts';
import { ages } from '#clickhouse/active-installs.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import {
  comparedOrganizations,
  largestGroupsOfCells,
  retainedInCells,
  revenueInCells,
  sizesOfCells,
} from '#clickhouse/queries/active-installs.ts';
import { type Cohorts, retained, revenueByAge } from '#clickhouse/queries/cohorts.ts';
import type { Question, Scope } from '#clickhouse/queries/scope.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { sleep, systemTime } from '#common/time.ts';
import { startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import { ActiveInstalls } from '#ingest/active-installs.ts';

const [eventCount = 10_000_000, repeats = 50, recordCount = 1_000_000] = process.argv.slice(2).map(Number);
const eventsPerInstall = 10;
const installsPerInsert = 100_000;
const rowsPerInsert = 5_000_000;
const quarterMs = HOUR_MS / 4;
const ageMax = 60;
const startMs = Date.UTC(2025, 0, 1);
const yearMs = 364 * DAY_MS;
const organization = 'org_01jgfjjw000000000000000000';
const app = 'app_01jgfjjw000000000000000000';
const settings = { max_partitions_per_insert_block: 0, max_threads: 1, max_insert_block_size: 1_000_000 };

const hash = (salt: number, what: string) => `(cityHash64(${salt}, ${what}) / 18446744073709551616)`;
const at = (ms: string) => `fromUnixTimestamp64Milli(toInt64(${ms}))`;
const installed = (no: string, count: number) =>
  `toInt64(${startMs} + ${no} * ${yearMs / (count / eventsPerInstall)} + ${hash(1, no)} * ${HOUR_MS})`;
const after = (event: string) => `toInt64(pow(${hash(3, event)}, 3) * ${ageMax * DAY_MS})`;
/** The share of the events that have an age. */
const shareAt = (age: number) => ((age + 1) / ageMax) ** (1 / 3) - (age / ageMax) ** (1 / 3);
const currencies = ['EUR', 'USD'] as const;
const currencyOf = (no: string) => `['EUR', 'EUR', 'USD'][1 + ${no} % 3]`;
const amount = 1.5;
const name = (no: string) => `'i' || toString(${no}) || '-3f9a6b2c81d7' AS install_id`;
const fields = (no: string) =>
  `'lnk_' || toString(cityHash64(6, ${no}) % 5000) AS link_id, ['DE', 'FR', 'US', 'GB', 'IN', 'BR'][1 + ${no} % 6] AS country, 'campaign ' || toString(cityHash64(6, ${no}) % 30) AS campaign, ['ios', 'android'][1 + ${no} % 2] AS platform`;

const installCount = eventCount / eventsPerInstall;
const quarters = yearMs / quarterMs;
const whole = `'' AS link_id, '' AS campaign, '' AS platform, '' AS country, true AS is_whole`;
const begun = (quarter: string) => `toDateTime(${startMs / 1000} + ${quarter} * ${quarterMs / 1000}, 'UTC') AS cohort`;
const begunOf = (no: string) => begun(`intDiv(${no} * ${quarters}, ${installCount})`);

const scope: Scope = {
  organization_ids: [organization],
  start_ms: startMs,
  end_ms: startMs + yearMs,
  filters: {},
  include_bots: true,
};
const slots_ms = Array.from({ length: 52 }, (_, week) => startMs + week * 7 * DAY_MS);
const weekly: Cohorts = { slots_ms, days: [1, 3, 7, 14, 30], observed_ms: startMs + yearMs + 90 * DAY_MS - 1 };
const revenueWeekly: Cohorts = { ...weekly, days: [0, 1, 3, 7, 14, 30, 60, 90] };

const folder = mkdtempSync(join(tmpdir(), 'retention-cost-'));
const server = await startClickHouse({ dataDir: folder, port: 0 });
const client = new ClickHouse({ url: `${server.url}/bench`, requestTimeoutMs: HOUR_MS });
const reader = new ClickHouse({ url: `${server.url}/bench`, reads: readLimits, requestTimeoutMs: HOUR_MS });
try {
  await migrateClickHouse(client, { retentionDays: 3_650 });
  await compareRecords();
  await client.command('TRUNCATE TABLE active_installs');
  const begunMs = performance.now();
  await makeCells();
  await rowsOf('active_installs');
  await makeRevenue();
  await mergesEnded();
  console.log(`cells made and merged in ${((performance.now() - begunMs) / 1000).toFixed(0)} s`);
  await rowsOf('active_installs');
  await ask('size of the cohorts', [sizesOfCells(scope, weekly)]);
  await ask('the whole answer', [
    comparedOrganizations(scope),
    sizesOfCells(scope, weekly),
    retainedInCells(scope, weekly),
  ]);
  const inGermany: Scope = { ...scope, filters: { country: { values: ['DE'], isExclusion: false } } };
  await ask('one country', [sizesOfCells(inGermany, weekly), retainedInCells(inGermany, weekly)]);
  const ofLink: Scope = { ...scope, filters: { link_id: { values: ['lnk_7'], isExclusion: false } } };
  await ask('one link', [sizesOfCells(ofLink, weekly), retainedInCells(ofLink, weekly)]);
  const byCampaign: Cohorts = { ...weekly, groupBy: 'campaign' };
  await ask('by campaign', [
    largestGroupsOfCells(scope, 'campaign', 11),
    sizesOfCells(scope, byCampaign),
    retainedInCells(scope, byCampaign),
  ]);
  await ask('revenue: the whole answer', [
    comparedOrganizations(scope),
    sizesOfCells(scope, revenueWeekly),
    revenueInCells(scope, revenueWeekly),
  ]);
  await ask('revenue: one country', [sizesOfCells(inGermany, revenueWeekly), revenueInCells(inGermany, revenueWeekly)]);
  const revenueByCampaign: Cohorts = { ...revenueWeekly, groupBy: 'campaign' };
  await ask('revenue: by campaign', [
    largestGroupsOfCells(scope, 'campaign', 11),
    sizesOfCells(scope, revenueByCampaign),
    revenueInCells(scope, revenueByCampaign),
  ]);
} finally {
  await Promise.all([client.close(), reader.close()]);
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function compareRecords(): Promise<void> {
  for (const table of ['installs', 'events'])
    for (const view of ['link', 'dimension']) await client.command(`DROP TABLE ${table}_by_${view}_view`);
  await store(0, recordCount / eventsPerInstall);
  const active = new ActiveInstalls({
    clickhouse: client,
    asOf: async () => weekly.observed_ms,
    unfinished: async () => [],
    isFirst: () => true,
    eventsMin: 1,
    time: systemTime,
    log: console.log,
  });
  const first = await cpuOf(() => active.compare());
  console.log(`${recordCount} events: CPU of the first comparison ${(first * 1000) / recordCount} µs for each event`);
  const quiet = await cpuOf(() => active.compare());
  console.log(`CPU of a comparison without changes (one day is counted again) ${quiet} ms`);
  const records = retained(scope, weekly, { isUnbounded: false, events: [] });
  const fromRecords = await ask('from records', [records], 5);
  const fromCells = await ask('from cells', [retainedInCells(scope, weekly)]);
  const revenue = await ask('revenue from records', [revenueByAge(scope, revenueWeekly)], 5);
  const revenueOfCells = await ask('revenue from cells', [revenueInCells(scope, revenueWeekly)]);
  console.log(`the same figures: ${fromRecords === fromCells} ${revenue === revenueOfCells}`);
}

async function store(from: number, to: number): Promise<void> {
  const insert = (table: string, count: number, columns: string) => {
    const names = [...columns.matchAll(/ AS (\w+)(?=,|$)/g)].map(([, found]) => found).join(', ');
    return client.command(
      `INSERT INTO ${table} (organization_id, app_id, ${names}) SELECT '${organization}', '${app}', ${names} FROM (SELECT ${columns} FROM numbers(${count}))`,
      {},
      settings,
    );
  };
  for (let first = from; first < to; first += installsPerInsert) {
    const count = Math.min(installsPerInsert, to - first);
    const event = `(number + ${first * eventsPerInstall})`;
    const install = `intDiv(${event}, ${eventsPerInstall})`;
    const no = `(number + ${first})`;
    await insert(
      'events',
      count * eventsPerInstall,
      `'e' || toString(${event}) AS event_id, 'opened' AS name, ${name(install)}, ${at(`${installed(install, recordCount)} + ${after(event)}`)} AS time, ${fields(install)}, if(${event} % ${eventsPerInstall} = 0, toDecimal128(${amount}, 9), NULL) AS revenue_amount, if(${event} % ${eventsPerInstall} = 0, ${currencyOf(install)}, '') AS revenue_currency`,
    );
    await insert(
      'installs',
      count,
      `${name(no)}, ${at(installed(no, recordCount))} AS time, 'install' AS trigger, ${fields(no)}`,
    );
  }
  for (const [kind, rows, more] of [
    ['events', 'toUInt64(sum(sign))', ', revenue_currency'],
    ['installs', 'count()', ''],
  ])
    await client.command(
      `INSERT INTO ${kind}_by_dimension (organization_id, app_id, dimension, bucket, rows${more}) SELECT '${organization}', '${app}', 'day', toDateTime(toDate(time)) AS bucket, ${rows}${more} FROM ${kind} GROUP BY bucket${more}`,
      {},
      settings,
    );
}

function insertCells(columns: string, rows: string): Promise<void> {
  const names = [...columns.matchAll(/ AS (\w+)(?=,|$)/g)].map(([, found]) => found).filter((one) => one !== 'no');
  return client.command(
    `INSERT INTO active_installs (organization_id, app_id, day, ${names.join(', ')})
     SELECT '${organization}', '${app}', toDate(cohort) + greatest(age % ${ages.revenue}, 0), ${names.join(', ')} FROM (SELECT ${columns} FROM ${rows})`,
    {},
    settings,
  );
}

/**
 * Inserts the cells that corrections would store. For single links, only the queried ages: no query reads the others.
 */
async function makeCells(): Promise<void> {
  for (let age = -1; age < ageMax; age++) {
    // The share of installs with an event at that age.
    const share = age < 0 ? 1 : 1 - (1 - shareAt(age)) ** eventsPerInstall;
    await insertCells(
      `toInt16(${age}) AS age, ${whole}, ${begun('number')}, toInt64(round(${share * (installCount / quarters)})) AS installs`,
      `numbers(${quarters})`,
    );
    if (age >= 0 && !weekly.days.includes(age)) continue;
    for (let first = 0; first < installCount; first += rowsPerInsert)
      await insertCells(
        `number + ${first} AS no, toInt16(${age}) AS age, ${fields('no')}, false AS is_whole, ${begunOf('no')}, 1 AS installs`,
        `numbers(${Math.min(rowsPerInsert, installCount - first)}) WHERE ${hash(age + 10, `number + ${first}`)} < ${share}`,
      );
  }
}

/**
 * Inserts one payment of each install. Every quarter of an hour has revenue of each age in each currency, which is the
 * maximum.
 */
async function makeRevenue(): Promise<void> {
  for (let age = 0; age < ageMax; age++)
    for (const currency of currencies)
      await insertCells(
        `toInt16(${ages.revenue + age}) AS age, ${whole}, ${begun('number')}, '${currency}' AS currency, toDecimal128(${(amount * shareAt(age) * installCount) / quarters / currencies.length}, 9) AS revenue`,
        `numbers(${quarters})`,
      );
  for (let first = 0; first < installCount; first += rowsPerInsert)
    await insertCells(
      `number + ${first} AS no, toInt16(${ages.revenue} + floor(pow(${hash(3, 'no')}, 3) * ${ageMax})) AS age, ${fields('no')}, false AS is_whole, ${begunOf('no')}, ${currencyOf('no')} AS currency, toDecimal128(${amount}, 9) AS revenue`,
      `numbers(${Math.min(rowsPerInsert, installCount - first)})`,
    );
}

/** Waits until merges have ended: those that follow inserts would count as the cost of an answer. */
async function mergesEnded(): Promise<void> {
  for (let quiet = 0; quiet < 3; ) {
    await sleep(systemTime, 1_000);
    const [found] = await client.query<{ n: number }>('SELECT count() AS n FROM system.merges');
    quiet = found?.n === 0 ? quiet + 1 : 0;
  }
}

async function rowsOf(table: string): Promise<void> {
  const [found] = await client.query<{ rows: number; mib: number; parts: number }>(
    `SELECT sum(rows) AS rows, round(sum(bytes_on_disk) / 1048576) AS mib, count() AS parts FROM system.parts WHERE table = '${table}' AND active`,
  );
  console.log(`${table}: ${found?.rows} rows, ${found?.mib} MiB, ${found?.parts} parts`);
}

/** CPU time of the server so far: clock ticks of /proc are hundredths of a second. */
function cpuMs(): number {
  const stat = readFileSync(`/proc/${server.pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(stat[11]) + Number(stat[12])) * 10;
}

async function cpuOf(run: () => Promise<void>): Promise<number> {
  const before = cpuMs();
  await run();
  return cpuMs() - before;
}

/** @returns the rows of the last query, sorted. */
async function ask(what: string, questions: readonly Question[], times = repeats): Promise<string> {
  const taken: number[] = [];
  let rows: unknown[] = [];
  const cpu = await cpuOf(async () => {
    for (let round = 0; round < times; round++) {
      const begunMs = performance.now();
      for (const { sql, params } of questions)
        rows = await reader.query(sql, params, {
          max_execution_time: 100,
          max_memory_usage: 3_000_000_000,
          max_threads: 2,
        });
      taken.push(performance.now() - begunMs);
    }
  });
  taken.sort((a, b) => a - b);
  const of = (share: number) => (taken[Math.min(times - 1, Math.floor(times * share))] ?? 0).toFixed(0);
  console.log(
    `${what.padEnd(25)} p50 ${of(0.5)} ms, p99 ${of(0.99)} ms, CPU ${(cpu / times).toFixed(0)} ms; load ${loadavg()[0]?.toFixed(0)}`,
  );
  return rows
    .map((row) => JSON.stringify(row))
    .sort()
    .join('\n');
}
