/**
 * Measures how long retention, revenue by age and funnels take: `node deploy/packages/run.mjs bench/micro/cohort-cost.ts [events] [rounds]
 * [weeks] [funnels] [unlimited]`. The records are those of one tenant over that many weeks (default 52): a tenth as many
 * installs as events, and as many clicks as events. Rollups are left out, since no query here reads them. `funnels`
 * measures funnels alone; `unlimited` removes the limits on the time and memory of a statement. A month costs the same
 * among 19 million events of 10 weeks as among 100 million of a year, because other months are not read.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readLimits } from '#api/parts.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { type Cohorts, cohortSizes, retained, revenueByAge } from '#clickhouse/queries/cohorts.ts';
import { funnelSteps } from '#clickhouse/queries/funnel.ts';
import type { Question, Scope } from '#clickhouse/queries/scope.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { startClickHouse } from '#deploy/local/clickhouse/spawn.ts';

const options = new Set(process.argv.slice(2).filter((word) => !/^\d+$/.test(word)));
const [eventCount = 1_000_000, rounds = 20, weeks = 52] = process.argv
  .slice(2)
  .filter((word) => !options.has(word))
  .map(Number);
const [isOfFunnels, isUnlimited] = [options.delete('funnels'), options.delete('unlimited')];
if (options.size > 0) throw new Error(`unknown option ${[...options].join(' ')}`);
const installCount = eventCount / 10;
const rowsPerInsert = 1_000_000;
const startMs = Date.UTC(2025, 0, 1);
const spanMs = weeks * 7 * DAY_MS;
const organization = 'org_01jgfjjw000000000000000000';
const app = 'app_01jgfjjw000000000000000000';
const limits = isUnlimited
  ? { max_execution_time: 0, max_memory_usage: 0, max_threads: 2 }
  : { max_execution_time: 100, max_memory_usage: 1_500_000_000, max_threads: 2 };

const hash = (salt: number, what: string) => `(cityHash64(${salt}, ${what}) / 18446744073709551616)`;
const at = (ms: string) => `fromUnixTimestamp64Milli(toInt64(${ms}))`;
/** Ids as long as real ones, because queries read and hash them. */
const idOf = (prefix: string, number: string) => `'${prefix}_' || leftPad(toString(cityHash64(6, ${number})), 26, '0')`;
const installed = (install: string) => `${startMs} + ${hash(1, install)} * ${spanMs}`;

/** Rows of each table; `number` counts them. */
const sources = [
  [
    'installs',
    installCount,
    `${idOf('ins', 'number')} AS install_id, ${idOf('clk', 'number')} AS click_id, ${at(installed('number'))} AS time, 'lnk_' || toString(number % 5000) AS link_id, true AS attributed, 'install' AS trigger, ['DE', 'FR', 'US'][1 + number % 3] AS country, 'campaign ' || toString(number % 30) AS campaign`,
  ],
  [
    'clicks',
    eventCount,
    `${idOf('clk', 'number')} AS click_id, ${at(`if(number < ${installCount}, ${installed('number')} - ${hash(5, 'number')} * ${HOUR_MS}, ${startMs} + ${hash(2, 'number')} * ${spanMs})`)} AS time, 'lnk_' || toString(number % 5000) AS link_id, ['DE', 'FR', 'US'][1 + number % 3] AS country, 'campaign ' || toString(number % 30) AS campaign`,
  ],
  [
    'events',
    eventCount,
    `'e' || toString(number) AS event_id, ['opened', 'purchase', 'level', 'signed up'][1 + cityHash64(4, number) % 4] AS name, ${idOf('ins', `number % ${installCount}`)} AS install_id, ${at(`${installed(`number % ${installCount}`)} + pow(${hash(3, 'number')}, 3) * ${60 * DAY_MS}`)} AS time, 'lnk_' || toString(number % 5000) AS link_id, if(number % 10 = 0, toDecimal128('1.5', 9), NULL) AS revenue_amount, if(number % 10 = 0, 'EUR', '') AS revenue_currency`,
  ],
] as const;

const folder = mkdtempSync(join(tmpdir(), 'cohort-cost-'));
const server = await startClickHouse({ dataDir: folder, port: 0 });
const client = new ClickHouse({ url: `${server.url}/bench`, requestTimeoutMs: HOUR_MS });
const reader = new ClickHouse({ url: `${server.url}/bench`, reads: readLimits, requestTimeoutMs: HOUR_MS });
try {
  await migrateClickHouse(client, { retentionDays: 3_650 });
  for (const [table] of sources) {
    for (const view of ['link', 'dimension']) await client.command(`DROP TABLE ${table}_by_${view}_view`);
  }
  const generatedMs = performance.now();
  for (const [table, count, columns] of sources) {
    for (let from = 0; from < count; from += rowsPerInsert) {
      const rows = Math.min(rowsPerInsert, count - from);
      const names = [...columns.matchAll(/ AS (\w+)(?=,|$)/g)].map(([, name]) => name).join(', ');
      await client.command(
        `INSERT INTO ${table} (organization_id, app_id, ${names}) SELECT '${organization}', '${app}', ${names} FROM (SELECT ${columns} FROM numbers(${from}, ${rows}))`,
        {},
        { max_partitions_per_insert_block: 0, max_threads: 2 },
      );
    }
  }
  console.log(`records made in ${((performance.now() - generatedMs) / 1000).toFixed(0)} s`);
  const scope: Scope = {
    organization_ids: [organization],
    start_ms: startMs,
    end_ms: startMs + spanMs,
    filters: {},
    include_bots: true,
  };
  const slots_ms = Array.from({ length: weeks }, (_, week) => startMs + week * 7 * DAY_MS);
  const observed_ms = startMs + spanMs + 90 * DAY_MS;
  const weekly: Cohorts = { slots_ms, days: [1, 3, 7, 14, 30], observed_ms };
  const byCampaign: Cohorts = { ...weekly, slots_ms: [startMs], groupBy: 'campaign' };
  const funnel = { from: 'click' as const, events: ['opened', 'purchase'], window_ms: 7 * DAY_MS, observed_ms };
  const lastMonth = { ...scope, start_ms: startMs + spanMs - 30 * DAY_MS };
  const monthly = { ...weekly, slots_ms: slots_ms.slice(-5) };
  if (!isOfFunnels) {
    await measure(`installs of ${weeks} weeks`, cohortSizes(scope, weekly));
    await measure(
      `retention of ${weeks} weeks, on the day`,
      retained(scope, weekly, { isUnbounded: false, events: [] }),
    );
    await measure(`retention of ${weeks} weeks, unbounded`, retained(scope, weekly, { isUnbounded: true, events: [] }));
    await measure(
      `retention of ${weeks} weeks by campaign`,
      retained(scope, byCampaign, { isUnbounded: false, events: [] }),
    );
    await measure('retention of the last month', retained(lastMonth, monthly, { isUnbounded: false, events: [] }));
    await measure(`revenue by age, ${weeks} weeks`, revenueByAge(scope, weekly));
  }
  await measure('funnel of a month: click, install, 2 events', funnelSteps(lastMonth, funnel));
  await measure(`funnel of ${weeks} weeks`, funnelSteps(scope, funnel));
} finally {
  await Promise.all([client.close(), reader.close()]);
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}

/** CPU time of the server so far: clock ticks of /proc are hundredths of a second. */
function cpuMs(): number {
  const fields = readFileSync(`/proc/${server.pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

async function measure(name: string, { sql, params, settings }: Question): Promise<void> {
  const times: number[] = [];
  const cpuBefore = cpuMs();
  try {
    for (let round = 0; round < rounds; round++) {
      const begunMs = performance.now();
      await reader.query(sql, params, { ...settings, ...limits });
      times.push(performance.now() - begunMs);
    }
  } catch (error) {
    console.log(`${name.padEnd(45)} ${error instanceof Error ? error.message.slice(0, 200) : String(error)}`);
    return;
  }
  times.sort((a, b) => a - b);
  const of = (share: number) =>
    (times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0).toFixed(0).padStart(7);
  console.log(
    `${name.padEnd(45)} p50 ${of(0.5)} ms, p99 ${of(0.99)} ms, CPU ${((cpuMs() - cpuBefore) / rounds).toFixed(0).padStart(6)} ms`,
  );
}
