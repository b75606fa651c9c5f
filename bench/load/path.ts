/**
 * Measures the cost of a click on its path from a journal to the rollups: a source of clicks, the publisher, NATS,
 * ingest, ClickHouse, Postgres and Redis, each its own process, at fixed rates. CPU is user and system time of the
 * whole process, from the first click of a round until the last one is committed. A click is visible at the latest when
 * the sink announces its mark.
 *
 * `--against <folder>` also measures another checkout with a built `dist/`, and `--partitions 4 --ingests 2` the same
 * path with several partitions and ingest processes. Each has its own servers, and their rounds alternate.
 */
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { packageRoot } from '#common/process/paths.ts';
import { PathStage, type Round, tell } from './path-stage.ts';
import { writeResult } from './result-file.ts';

const warmUpSeconds = 4;

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

export async function benchPath(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rates: { type: 'string', default: '5000,10000,20000' },
      seconds: { type: 'string', default: '8' },
      rounds: { type: 'string', default: '3' },
      turn: { type: 'string', default: '64' },
      people: { type: 'string', default: '50000' },
      'no-redis': { type: 'boolean', default: false },
      profile: { type: 'string', default: '' },
      against: { type: 'string', default: '' },
      partitions: { type: 'string', default: '1' },
      ingests: { type: 'string', default: '1' },
    },
  });
  const rates = values.rates.split(',').map(Number);
  const { turn, people, profile, against } = values;
  const [partitions, ingests] = [Number(values.partitions), Number(values.ingests)];
  execFileSync(process.execPath, ['build.mjs', '--if-stale'], { cwd: packageRoot(), stdio: 'inherit' });
  const one = {
    root: packageRoot(),
    turn,
    people,
    profile,
    isWithRedis: !values['no-redis'],
    partitions: 1,
    ingests: 1,
  };
  const wanted = [...(against === '' ? [] : [{ ...one, root: resolve(against) }]), one];
  if (partitions > 1 || ingests > 1) wanted.push({ ...one, partitions, ingests });
  const stages: PathStage[] = [];
  try {
    for (const options of wanted) stages.push(await PathStage.open(options));
    for (const stage of stages) await stage.round(rates[0] ?? 5_000, warmUpSeconds);
    for (let round = 1; round <= Number(values.rounds); round++) {
      for (const rate of rates) {
        for (const stage of stages) {
          const figures = await stage.round(rate, Number(values.seconds));
          stage.figures.set(rate, [...(stage.figures.get(rate) ?? []), figures]);
          tell(
            `${stage.name}, round ${round}, ${rate} clicks a second: ${costs(figures.us)}; seen after ${Math.round(figures.lag_p99_ms)} ms (p99)`,
          );
        }
      }
    }
    for (const { name, figures } of stages) {
      const middle = [...figures.values()].map(middleOf);
      report(name, middle);
      if (name === packageRoot()) writeResult('path', { figures: middle });
    }
  } finally {
    for (const stage of stages) await stage.close();
  }
}

function costs(us: Readonly<Record<string, number>>): string {
  return Object.entries(us)
    .map(([name, value]) => `${name} ${value.toFixed(1)}`)
    .join(', ');
}

function middleOf(rounds: readonly Round[]): Round {
  const middle = (pick: (round: Round) => number) => median(rounds.map(pick));
  const names = Object.keys(rounds[0]?.us ?? {});
  return {
    rate: middle((round) => round.rate),
    clicks: middle((round) => round.clicks),
    us: Object.fromEntries(names.map((name) => [name, middle((round) => round.us[name] ?? 0)])),
    lag_p50_ms: middle((round) => round.lag_p50_ms),
    lag_p99_ms: middle((round) => round.lag_p99_ms),
    lost: Math.max(...rounds.map((round) => round.lost)),
    rollup_difference: Math.max(...rounds.map((round) => round.rollup_difference)),
  };
}

function report(name: string, figures: readonly Round[]): void {
  console.log(name);
  console.table(
    figures.map(({ rate, us, lag_p50_ms, lag_p99_ms, lost, rollup_difference }) => ({
      'clicks/s': rate,
      ...Object.fromEntries(Object.entries(us).map(([name, value]) => [`${name} µs`, value.toFixed(1)])),
      'seen p50 ms': Math.round(lag_p50_ms),
      'seen p99 ms': Math.round(lag_p99_ms),
      lost,
      'rollup difference': rollup_difference,
    })),
  );
}
