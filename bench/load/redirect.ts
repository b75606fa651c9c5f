/**
 * Measures the cost of a redirect against a bare 302 of the same server library, and against a minimal server that
 * records clicks. All take turns in the same run on the same machine, so that other load affects all of them. CPU comes
 * from /proc and covers every thread of a process.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { packageRoot } from '#common/process/paths.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { freePort } from '#deploy/local/ports.ts';
import { cannonLoad } from './cannon.ts';
import { writeResult } from './result-file.ts';
import { benchHost, openStage, pathOf, type Stage } from './stage.ts';
import { readProcess, Subject, treeCpuUs } from './subject.ts';
import { zipf } from './traffic.ts';
import { Wrk, type WrkResult } from './wrk.ts';

const pathsPerRun = 100_000;

interface Case {
  readonly name: string;
  readonly paths: readonly string[];
  /** LINK_CACHE_ENTRIES: with few, almost every visit misses the process cache. */
  readonly entries?: number;
  readonly sync?: 'before_answer';
  readonly targetRatio?: number;
}

interface Round {
  readonly bare_us: number;
  readonly prototype_us: number;
  readonly redirector_us: number;
  readonly redis_us: number;
  readonly postgres_us: number;
  readonly per_second: number;
  readonly refused: number;
  readonly socket_errors: number;
  readonly rss_mb: number;
}

interface Figures extends Round {
  readonly case: string;
  readonly ratio: number;
  readonly target: number | null;
  /** The redirector's cost divided by that of the prototype. */
  readonly prototype_ratio: number;
}

interface Baseline {
  readonly subject: Subject;
  readonly port: number;
}

async function startBaseline(file: string, ...args: string[]): Promise<Baseline> {
  const subject = Subject.start(file, `bench/baseline/${file}.ts`, {}, [], args);
  return { subject, port: Number((await subject.line(/port (\d+)/))[1]) };
}

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
const tell = (line: string) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);

export async function benchRedirect(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      links: { type: 'string', default: '1,10000,1000000' },
      seconds: { type: 'string', default: '3' },
      rounds: { type: 'string', default: '3' },
      only: { type: 'string', default: '' },
    },
  });
  if (!(await Wrk.isThere()))
    tell('wrk is not installed (apt install wrk): using autocannon, which does not reach peak load');
  const sizes = values.links.split(',').map(Number);
  const seconds = Number(values.seconds);
  const rounds = Number(values.rounds);
  const most = Math.max(...sizes);
  execFileSync(process.execPath, ['build.mjs', '--if-stale'], { cwd: packageRoot(), stdio: 'inherit' });
  const stage = await openStage(most, tell);
  const bare = await startBaseline('bare-302');
  const prototype = await startBaseline('prototype-302', join(stage.folder, 'prototype.journal'));
  try {
    const figures: Figures[] = [];
    for (const one of casesOf(sizes).filter(({ name }) => name.includes(values.only)))
      figures.push(await runCase(stage, { bare, prototype }, one, seconds, rounds));
    const peak = figures[0]?.per_second ?? 0;
    // With --only, the figures are only printed, since the result would be incomplete.
    if (values.only !== '') {
      show(figures);
      return;
    }
    const latencies = await runPaced(stage, sizes.includes(10_000) ? 10_000 : most, peak, Math.max(seconds, 4));
    report(figures, latencies);
  } finally {
    await Promise.all([bare.subject.stop(), prototype.subject.stop()]);
    await stage.close();
  }
}

function casesOf(sizes: readonly number[]): Case[] {
  const draw = (next: () => number) => Array.from({ length: pathsPerRun }, () => pathOf(next()));
  const most = Math.max(...sizes);
  const spread = Math.min(most, 10_000);
  const random = seededRandom(3);
  const unknown = Array.from({ length: pathsPerRun }, (_, n) => `/unknown-${n}`);
  const tail = draw(() => 1 + Math.floor(random() * most));
  const hot = draw(zipf(spread, seededRandom(4)));
  return [
    ...sizes.map((links) => ({
      name: `cached, ${links.toLocaleString('en')} links`,
      paths: draw(zipf(links, seededRandom(1))),
      ...(links <= 10_000 ? { targetRatio: 1.5 } : {}),
    })),
    { name: 'synced before the answer', paths: hot, sync: 'before_answer' },
    { name: 'Redis hit', paths: draw(() => 1 + Math.floor(random() * spread)), entries: 100, targetRatio: 3 },
    { name: 'unknown', paths: unknown },
    {
      name: 'mixed 80/15/5',
      paths: hot.map((path, n) => (n % 20 === 0 ? `/unknown-${n}` : n % 20 < 4 ? (tail[n] ?? path) : path)),
    },
  ];
}

/** Starts the built redirector, as in production. */
async function startRedirector(
  stage: Stage,
  { entries, sync }: Pick<Case, 'entries' | 'sync'> = {},
): Promise<{ subject: Subject; port: number }> {
  const port = await freePort();
  const subject = Subject.start('redirector', 'dist/redirector/main.js', {
    DATA_DIR: stage.folder,
    INSTANCE: `redirector-${port}`,
    DATABASE_URL: stage.postgres.url,
    REDIS_URL: stage.redis.url,
    ADDRESS_KEY: 'benchmark key, of the required length',
    REDIRECTOR_HTTP_PORT: String(port),
    REDIRECTOR_HTTPS_PORT: '0',
    LOG_LEVEL: 'info',
    ...(entries === undefined ? {} : { LINK_CACHE_ENTRIES: String(entries) }),
    ...(sync === undefined ? {} : { JOURNAL_SYNC: sync }),
  });
  await subject.line(/"part":"server"/);
  return { subject, port };
}

async function runCase(
  stage: Stage,
  baselines: Readonly<Record<'bare' | 'prototype', Baseline>>,
  one: Case,
  seconds: number,
  rounds: number,
): Promise<Figures> {
  const wrk = (await Wrk.isThere()) ? new Wrk(stage.folder) : null;
  const load = (port: number): Promise<WrkResult> => {
    const options = { port, host: benchHost, paths: one.paths, seconds };
    return wrk ? wrk.load(options) : cannonLoad(options);
  };
  const redirector = await startRedirector(stage, one);
  try {
    tell(`${one.name}: warming up`);
    for (let times = 0; times < 2; times++) await load(redirector.port);
    await load(baselines.prototype.port);
    const costOf = async ({ subject, port }: Baseline) => {
      const before = subject.read();
      const { requests } = await load(port);
      return (subject.read().cpuUs - before.cpuUs) / requests;
    };
    const all: Round[] = [];
    for (let round = 1; round <= rounds; round++) {
      const [bare_us, prototype_us] = [await costOf(baselines.bare), await costOf(baselines.prototype)];
      const measured = { ...(await measure(stage, redirector, load)), bare_us, prototype_us };
      all.push(measured);
      const against = `${bare_us.toFixed(1)} (bare) and ${prototype_us.toFixed(1)} (prototype)`;
      tell(`${one.name}: round ${round}: ${measured.redirector_us.toFixed(1)} µs against ${against}`);
    }
    const middle = (pick: (round: Round) => number) => median(all.map(pick));
    return {
      case: one.name,
      ratio: middle((round) => round.redirector_us / round.bare_us),
      target: one.targetRatio ?? null,
      prototype_ratio: middle((round) => round.redirector_us / round.prototype_us),
      prototype_us: middle((round) => round.prototype_us),
      bare_us: middle((round) => round.bare_us),
      redirector_us: middle((round) => round.redirector_us),
      redis_us: middle((round) => round.redis_us),
      postgres_us: middle((round) => round.postgres_us),
      per_second: middle((round) => round.per_second),
      refused: middle((round) => round.refused),
      socket_errors: middle((round) => round.socket_errors),
      rss_mb: middle((round) => round.rss_mb),
    };
  } finally {
    await redirector.subject.stop();
  }
}

async function measure(
  stage: Stage,
  redirector: { subject: Subject; port: number },
  load: (port: number) => Promise<WrkResult>,
): Promise<Omit<Round, 'bare_us' | 'prototype_us'>> {
  const read = () => ({
    own: redirector.subject.read(),
    redis: readProcess(stage.redis.pid).cpuUs,
    postgres: treeCpuUs(stage.postgres.pid),
  });
  const before = read();
  const result = await load(redirector.port);
  const after = read();
  return {
    redirector_us: (after.own.cpuUs - before.own.cpuUs) / result.requests,
    redis_us: (after.redis - before.redis) / result.requests,
    postgres_us: (after.postgres - before.postgres) / result.requests,
    per_second: result.requests / result.seconds,
    refused: result.refused,
    socket_errors: result.socketErrors,
    rss_mb: after.own.rssBytes / 1e6,
  };
}

interface Latency {
  readonly rate: number;
  readonly due: number;
  readonly answered: number;
  readonly failed: number;
  readonly p50_ms: number;
  readonly p90_ms: number;
  readonly p99_ms: number;
  readonly p999_ms: number;
  readonly max_ms: number;
}

/**
 * At 5,000 visits a second, and at a quarter and half of what wrk reached: the JavaScript client and the redirector
 * share two cores.
 */
async function runPaced(stage: Stage, links: number, peak: number, seconds: number): Promise<Latency[]> {
  const redirector = await startRedirector(stage);
  const file = join(stage.folder, 'paced.txt');
  const next = zipf(links, seededRandom(5));
  writeFileSync(file, Array.from({ length: pathsPerRun }, () => pathOf(next())).join('\n'));
  const found: Latency[] = [];
  try {
    for (const rate of [5_000, Math.round(peak / 4), Math.round(peak / 2)]) {
      tell(`latency at ${rate} visits a second`);
      const client = Subject.start(
        'client',
        'bench/load/paced-client.ts',
        {},
        [],
        [...[String(redirector.port), benchHost, file, String(rate), String(seconds), '64']],
      );
      const line = await client.line(/\{"due".*\}/);
      found.push({ rate, ...JSON.parse(line[0]) });
      await client.stop();
    }
  } finally {
    await redirector.subject.stop();
  }
  return found;
}

function show(figures: readonly Figures[]): void {
  console.table(
    figures.map((one) => ({
      case: one.case,
      'bare µs': one.bare_us.toFixed(1),
      'redirector µs': one.redirector_us.toFixed(1),
      ratio: one.ratio.toFixed(2),
      target: one.target ?? '',
      'prototype µs': one.prototype_us.toFixed(1),
      '÷ prototype': one.prototype_ratio.toFixed(2),
      'Redis µs': one.redis_us.toFixed(1),
      'Postgres µs': one.postgres_us.toFixed(1),
      'visits/s': Math.round(one.per_second),
      'memory MB': Math.round(one.rss_mb),
    })),
  );
}

function report(figures: readonly Figures[], latencies: readonly Latency[]): void {
  show(figures);
  console.table(latencies);
  writeResult('redirect', { figures, latencies });
}
