/**
 * `npm run bench -- analytics [--clicks 1000000,10000000,100000000] [--rounds 200] [--keep folder]`: measures every
 * endpoint over HTTPS, for the tenant that has a tenth of all records. One client sends each query, first for other
 * days and then repeatedly. Then 1, 8 and 32 clients of as many tenants send all queries, and a client that reads
 * slowly receives a long export. Clicks are looked up by their ids. The range is always the same 400 days, to show how the times grow with the size.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build, type Histogram } from 'hdr-histogram-js';
import { AnalyticsStage, forgetPeak, peakMb } from '#bench/data/analytics-stage.ts';
import { makeUpRecords } from '#bench/data/made-up-store.ts';
import { DAY_MS } from '#common/durations.ts';
import { sleep, systemTime } from '#common/time.ts';
import { type Question, questionsOf } from './analytics-questions.ts';
import { type LookupRow, measureLookups } from './click-lookups.ts';
import { writeResult } from './result-file.ts';
import { readProcess } from './subject.ts';

const days = 400;
/** Each query is measured for at most this long, however few rounds that allows. */
const questionMsMax = 20_000;
const roundsMin = 10;
const otherDays = 60;
const crowdMs = 5_000;
const exportRowsMax = 3_000_000;
const exportSlowMs = 10_000;
/** What the slow client reads per second. */
const slowBytes = 4_000_000;
const exportMsMax = 90_000;

/** One row of the table. Times are in milliseconds; cpu is ClickHouse's CPU time per answer. */
interface Row {
  readonly question: string;
  readonly cold: number;
  /** For days that were not queried before: the stores are warm, and the API has nothing cached. */
  readonly new_p50: number;
  readonly new_p99: number;
  /** The same query again, as when a dashboard is refreshed. */
  readonly p50: number;
  readonly p99: number;
  readonly cpu: number;
  readonly queries: number;
  readonly rows: number;
  readonly peak_mb: number;
}

interface Size {
  readonly clicks: number;
  readonly making_seconds: number | null;
  readonly disk_gb: number;
  readonly rows: readonly Row[];
  readonly crowds: readonly object[];
  readonly lookups: readonly LookupRow[];
  readonly slow_export: object;
}

export async function benchAnalytics(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      clicks: { type: 'string', default: '1000000,10000000,100000000' },
      rounds: { type: 'string', default: '200' },
      keep: { type: 'string' },
    },
  });
  const sizes: Size[] = [];
  for (const clicks of values.clicks.split(',').map(Number)) {
    const folder = values.keep ? join(values.keep, String(clicks)) : mkdtempSync(join(tmpdir(), 'signpost-bench-'));
    try {
      const size = await measure(folder, clicks, Number(values.rounds));
      sizes.push(size);
      console.log(`\n${clicks.toLocaleString('en')} clicks over ${days} days, ${size.disk_gb} GB`);
      console.table(size.rows);
      console.table(size.crowds);
      console.table(size.lookups);
      console.table([size.slow_export]);
    } finally {
      if (values.keep === undefined) rmSync(folder, { recursive: true, force: true });
    }
  }
  if (sizes.length > 1) console.table(growthOf(sizes));
  writeResult('analytics', { sizes, growth: sizes.length > 1 ? growthOf(sizes) : [] });
}

async function measure(folder: string, clicks: number, rounds: number): Promise<Size> {
  progress(`${clicks.toLocaleString('en')} clicks: starting servers`);
  const stage = await AnalyticsStage.start(folder);
  try {
    const startedMs = Date.now();
    const wasThere = (await stage.end()) > 0;
    if (!wasThere) {
      const endMs = Math.floor(startedMs / DAY_MS) * DAY_MS;
      await makeUpRecords(stage.clickhouse, { clicks, days, endMs }, (done, all) => showFilling(done, all, startedMs));
    }
    const making_seconds = wasThere ? null : Math.round((Date.now() - startedMs) / 1000);
    const questions = await questionsOf(stage.clickhouse, await stage.end());
    const rows: Row[] = [];
    for (const [at, question] of questions.entries()) {
      progress(`${at + 1} of ${questions.length}: ${question.name}`);
      rows.push(await measureOne(stage, question, rounds));
    }
    const crowds = await measureCrowds(stage, questions);
    progress('clicks by their ids');
    const lookups = await measureLookups(stage);
    const slow_export = await measureExport(stage);
    progress('');
    return { clicks, making_seconds, disk_gb: await diskGb(stage), rows, crowds, lookups, slow_export };
  } finally {
    await stage.stop();
  }
}

const barWidth = 40;

function showFilling(done: number, all: number, startedMs: number): void {
  const full = Math.round((done / all) * barWidth);
  const seconds = (Date.now() - startedMs) / 1000;
  const left = (seconds / done) * (all - done);
  progress(
    `[${'#'.repeat(full)}${'.'.repeat(barWidth - full)}] ${done.toLocaleString('en')} of ${all.toLocaleString('en')} clicks, ${seconds.toFixed(0)} s, about ${left.toFixed(0)} s more`,
  );
}

/** Overwrites one line of a terminal; without a terminal, prints one line each. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
  else if (text !== '') process.stderr.write(`${text}\n`);
}

async function timed(stage: AnalyticsStage, path: string, tenant = 0): Promise<number> {
  const from = performance.now();
  const { status } = await stage.get(path, tenant);
  if (status !== 200) throw new Error(`${path} was answered ${status}`);
  return performance.now() - from;
}

async function measureOne(stage: AnalyticsStage, { name, path }: Question, rounds: number): Promise<Row> {
  await stage.forgetCaches();
  const before = await stage.readSoFar();
  const cold = await timed(stage, path(0));
  const after = await stage.readSoFar();
  for (let round = 0; round < 3; round++) await timed(stage, path(0));
  forgetPeak(stage.storePid);
  const first = build({ numberOfSignificantValueDigits: 3 });
  for (let back = 1; back <= otherDays; back++) first.recordValue(Math.round((await timed(stage, path(back))) * 1000));
  const histogram = build({ numberOfSignificantValueDigits: 3 });
  const [untilMs, cpuBefore] = [Date.now() + questionMsMax, readProcess(stage.storePid).cpuUs];
  for (let round = 0; round < rounds && (round < roundsMin || Date.now() < untilMs); round++) {
    histogram.recordValue(Math.round((await timed(stage, path(0))) * 1000));
  }
  const cpuUs = readProcess(stage.storePid).cpuUs - cpuBefore;
  return {
    question: name,
    cold: tenths(cold),
    new_p50: percentiles(first).p50,
    new_p99: percentiles(first).p99,
    ...percentiles(histogram),
    cpu: tenths(cpuUs / 1000 / histogram.totalCount),
    // Reading the counters is a query too.
    queries: after.queries - before.queries - 1,
    rows: after.rows - before.rows,
    peak_mb: peakMb(stage.storePid),
  };
}

const tenths = (value: number) => Math.round(value * 10) / 10;

function percentiles(histogram: Histogram): { p50: number; p99: number } {
  const of = (percentile: number) => tenths(histogram.getValueAtPercentile(percentile) / 1000);
  return { p50: of(50), p99: of(99) };
}

/** Sends all queries in turn from 1, 8 and 32 concurrent clients, each of another tenant, the first of the largest. */
async function measureCrowds(stage: AnalyticsStage, questions: readonly Question[]): Promise<object[]> {
  const crowds: object[] = [];
  const general = questions.filter((question) => !question.isOfBigTenant);
  for (const clients of [1, 8, 32]) {
    progress(`${clients} clients`);
    const [all, big] = [build({ numberOfSignificantValueDigits: 3 }), build({ numberOfSignificantValueDigits: 3 })];
    const untilMs = Date.now() + crowdMs;
    let sent = 0;
    forgetPeak(stage.storePid);
    const one = async (client: number) => {
      while (Date.now() < untilMs) {
        const path = general[sent++ % general.length]?.path(0) ?? '';
        const us = Math.round((await timed(stage, path, client)) * 1000);
        all.recordValue(us);
        if (client === 0) big.recordValue(us);
      }
    };
    await Promise.all(Array.from({ length: clients }, (_, client) => one(client)));
    const ofBig = percentiles(big);
    crowds.push({
      clients,
      answers_per_second: Math.round(all.totalCount / (crowdMs / 1000)),
      ...percentiles(all),
      big_tenant_p50: ofBig.p50,
      big_tenant_p99: ofBig.p99,
      peak_mb: peakMb(stage.storePid),
    });
  }
  return crowds;
}

/** Exports raw clicks of the largest tenant to a client that first reads slowly, then as fast as it can. */
async function measureExport(stage: AnalyticsStage): Promise<object> {
  progress('an export to a slow client');
  const end = await stage.end();
  const [start, until] = [end - days * DAY_MS, end].map((ms) => new Date(ms).toISOString());
  const atRest = Math.round(stage.api.read().rssBytes / 1_048_576);
  forgetPeak(stage.api.pid);
  forgetPeak(stage.storePid);
  const beganMs = Date.now();
  let [rows, bytes, slowPeak] = [0, 0, 0];
  const enough = new Error('enough');
  try {
    await stage.get(`/analytics/export?kind=clicks&format=ndjson&start=${start}&end=${until}`, 0, async (part) => {
      bytes += part.length;
      rows += linesIn(part);
      const ms = Date.now() - beganMs;
      if (rows >= exportRowsMax || ms > exportMsMax) throw enough;
      if (ms < exportSlowMs) {
        slowPeak = peakMb(stage.api.pid);
        await sleep(systemTime, (part.length / slowBytes) * 1000);
      }
    });
  } catch (error) {
    if (error !== enough) throw error;
  }
  const seconds = tenths((Date.now() - beganMs) / 1000);
  const [api_peak_mb, store_peak_mb] = [peakMb(stage.api.pid), peakMb(stage.storePid)];
  return {
    rows,
    mb: Math.round(bytes / 1e6),
    seconds,
    api_at_rest_mb: atRest,
    api_peak_slow_mb: slowPeak,
    api_peak_mb,
    store_peak_mb,
  };
}

function linesIn(part: Buffer): number {
  let lines = 0;
  for (let at = part.indexOf(10); at >= 0; at = part.indexOf(10, at + 1)) lines++;
  return lines;
}

async function diskGb(stage: AnalyticsStage): Promise<number> {
  const rows = await stage.clickhouse.query<{ bytes: number }>(
    'SELECT sum(bytes_on_disk) AS bytes FROM system.parts WHERE active AND database = currentDatabase()',
  );
  return tenths((rows[0]?.bytes ?? 0) / 1e9);
}

/** The p50 and p99 of each query at each size, and the last p50 relative to the first. */
function growthOf(sizes: readonly Size[]): object[] {
  const names = sizes[0]?.rows.map((row) => row.question) ?? [];
  return names.map((question) => {
    const its = sizes.map((size) => size.rows.find((row) => row.question === question));
    const columns = sizes.map((size, at) => [size.clicks.toLocaleString('en'), `${its[at]?.p50} / ${its[at]?.p99}`]);
    const growth = (its.at(-1)?.p50 ?? 0) / (its[0]?.p50 ?? 1);
    return { question, ...Object.fromEntries(columns), growth: `${tenths(growth)} ×` };
  });
}
