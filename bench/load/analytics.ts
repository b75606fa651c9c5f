/**
 * `npm run bench -- analytics [--clicks 1000000,10000000] [--last-days 400] [--rounds 30] [--keep folder]`: every endpoint over the tenant that
 * has a tenth of all records, in process (validation, Postgres, ClickHouse), cold and warm; then 1, 8 and 32 clients.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from 'hdr-histogram-js';
import { AnalyticsStage, type Reading } from '#bench/data/analytics-stage.ts';
import { bigTenant, makeUpRecords } from '#bench/data/made-up-records.ts';

const dayMs = 86_400_000;

/** One row of the table. Times in milliseconds. */
interface Row {
  readonly question: string;
  readonly cold: number;
  readonly p50: number;
  readonly p99: number;
  /** Rows in the granules that ClickHouse expects to read. */
  readonly rows: number;
}

const zone = 'timezone=Europe/Berlin';
const questions: readonly (readonly [string, (linkId: string) => string])[] = [
  ['overview, 30 days', () => '/analytics/overview?interval=30d'],
  ['overview, 30 days, Berlin', () => `/analytics/overview?interval=30d&${zone}`],
  ['overview, 30 days, one platform', () => '/analytics/overview?interval=30d&platform=ios'],
  ['overview, 30 days, one campaign', () => '/analytics/overview?interval=30d&campaign=campaign_7'],
  ['overview, 30 days, platform and country', () => '/analytics/overview?interval=30d&platform=ios&country=DE'],
  ['time series, 30 days by day', () => '/analytics/timeseries?interval=30d&granularity=day'],
  ['time series, 30 days by day, Berlin', () => `/analytics/timeseries?interval=30d&granularity=day&${zone}`],
  ['time series, 24 hours by hour', () => '/analytics/timeseries?interval=24h&granularity=hour'],
  ['time series, 24 hours by hour, by platform', () => '/analytics/timeseries?interval=24h&group_by=platform'],
  ['time series, 30 days by day, by platform', () => '/analytics/timeseries?interval=30d&group_by=platform'],
  ['time series, 30 days by day, by country', () => '/analytics/timeseries?interval=30d&group_by=country'],
  ['time series, 30 days by day, by campaign', () => '/analytics/timeseries?interval=30d&group_by=campaign'],
  ['top links, 30 days', () => '/analytics/top-links?interval=30d'],
  ['top links, 30 days, Berlin', () => `/analytics/top-links?interval=30d&${zone}`],
  ['top links, 30 days, by unique clicks', () => '/analytics/top-links?interval=30d&sort_by=unique_clicks'],
  ['top campaigns, 30 days', () => '/analytics/top-campaigns?interval=30d'],
  ['statistics of the top link, 30 days', (link) => `/links/${link}/stats?interval=30d`],
];

export async function benchAnalytics(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      clicks: { type: 'string', default: '1000000,10000000' },
      'last-days': { type: 'string', default: '400' },
      rounds: { type: 'string', default: '30' },
      keep: { type: 'string' },
    },
  });
  for (const clicks of values.clicks.split(',').map(Number)) {
    const folder = values.keep ?? mkdtempSync(join(tmpdir(), 'signpost-bench-'));
    try {
      await measure(folder, clicks, Number(values['last-days']), Number(values.rounds));
    } finally {
      if (values.keep === undefined) rmSync(folder, { recursive: true, force: true });
    }
  }
}

async function measure(folder: string, clicks: number, lastDays: number, rounds: number): Promise<void> {
  const endMs = Math.ceil(Date.now() / dayMs) * dayMs;
  const stage = await AnalyticsStage.start(folder, endMs - 1);
  try {
    const startedMs = Date.now();
    if (!(await stage.hasRecords())) {
      await makeUpRecords(stage.clickhouse, { clicks, days: 400, lastDays, endMs }, (done, all) => {
        const seconds = (Date.now() - startedMs) / 1000;
        progress(`${clicks.toLocaleString('en')} clicks: day ${done} of ${all}, ${seconds.toFixed(0)} s`);
      });
    }
    const makingSeconds = (Date.now() - startedMs) / 1000;
    const linkId = await stage.openTenant(bigTenant);
    const rows: Row[] = [];
    for (const [question, pathOf] of questions) {
      progress(question);
      rows.push(await measureOne(stage, question, pathOf(linkId), rounds));
    }
    const crowds = await measureCrowds(
      stage,
      questions.map(([, pathOf]) => pathOf(linkId)),
    );
    progress('');
    const memory = stage.peakMemoryMb();
    console.log(
      `\n${clicks.toLocaleString('en')} clicks over 400 days (the last ${lastDays} made in ${makingSeconds.toFixed(0)} s)`,
    );
    console.table(rows);
    console.table(crowds);
    console.log(`Peak memory of ClickHouse: ${memory} MB`);
    keep({ clicks, lastDays, makingSeconds, rows, crowds, memory_mb: memory });
  } finally {
    await stage.stop();
  }
}

function progress(text: string): void {
  if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${text}`);
  else if (text !== '' && / (\d+0|1) of /.test(text)) console.log(text);
}

async function timed(stage: AnalyticsStage, path: string, reading: Reading): Promise<number> {
  const from = process.hrtime.bigint();
  const status = await stage.get(path, reading);
  const ms = Number(process.hrtime.bigint() - from) / 1e6;
  if (status !== 200) throw new Error(`${path} was answered with ${status}`);
  return ms;
}

async function measureOne(stage: AnalyticsStage, question: string, path: string, rounds: number): Promise<Row> {
  await stage.forgetCaches();
  const cold = await timed(stage, path, 'noted');
  const rows = await stage.rowsToRead();
  const histogram = build({ numberOfSignificantValueDigits: 3 });
  for (let round = 0; round < rounds; round++)
    histogram.recordValue(Math.round((await timed(stage, path, 'plain')) * 1000));
  const of = (percentile: number) => Math.round(histogram.getValueAtPercentile(percentile) / 100) / 10;
  return { question, cold: Math.round(cold * 10) / 10, p50: of(50), p99: of(99), rows };
}

/** All questions in turn, by so many at once; each of them another tenant, the first the big one. */
async function measureCrowds(stage: AnalyticsStage, paths: readonly string[]): Promise<object[]> {
  const crowds: object[] = [];
  const general = paths.filter((path) => !path.startsWith('/links/'));
  for (const clients of [1, 8, 32]) {
    progress(`${clients} clients`);
    const histogram = build({ numberOfSignificantValueDigits: 3 });
    const untilMs = Date.now() + 4_000;
    let asked = 0;
    const one = async (client: number) => {
      while (Date.now() < untilMs) {
        const path = general[asked++ % general.length] ?? '';
        const from = process.hrtime.bigint();
        await stage.get(path, 'plain', client);
        histogram.recordValue(Math.round(Number(process.hrtime.bigint() - from) / 1000));
      }
    };
    await Promise.all(Array.from({ length: clients }, (_, client) => one(client)));
    const of = (percentile: number) => Math.round(histogram.getValueAtPercentile(percentile) / 100) / 10;
    crowds.push({ clients, 'answers/s': Math.round(histogram.totalCount / 4), p50: of(50), p99: of(99) });
  }
  return crowds;
}

function keep(figures: { readonly clicks: number } & Readonly<Record<string, unknown>>): void {
  mkdirSync('bench/results', { recursive: true });
  const cpu = cpus()[0]?.model ?? '';
  const load = readFileSync('/proc/loadavg', 'utf8').trim();
  const machine = { cpu, cores: cpus().length, node: process.version, load_at_end: load };
  const file = `bench/results/analytics-${figures.clicks}.json`;
  writeFileSync(file, `${JSON.stringify({ at: new Date().toISOString(), machine, ...figures }, null, 2)}\n`);
  console.log(`Kept in ${file}`);
}
