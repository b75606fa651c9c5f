/**
 * `npm run test:simulation -- --seeds N [--seed S]`: runs N seeds in sequence, starting at S, and exits with 1 if one
 * fails. The first seed that fails is run again to print its schedule. `--failures N` stops after N failures; `--trace`
 * prints the schedule of every seed. `--years N` runs N years in one world, with clocks that are years off. A process uses one core: to use two, run a second one with
 * `--seeds 50000 --seed 50001` next to `--seeds 50000 --seed 1`.
 */
import { parseArgs } from 'node:util';
import { DAY_MS } from '#common/durations.ts';
import { runSeed, type SeedOutcome } from './seed-run.ts';
import type { World } from './world.ts';
import { runYears } from './year-run.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    seed: { type: 'string', default: '1' },
    trace: { type: 'boolean', default: false },
    failures: { type: 'string', default: '10' },
    years: { type: 'string', default: '0' },
  },
});
const first = Number(values.seed);
const count = Number(values.seeds);
const failuresMax = Number(values.failures);
const traceLines = 60;
const progressEvery = 1_000;

const hits = new Map<string, number>();
const repairs = new Map<string, number>();
const bites = new Map<string, { times: number; seeds: number }>();
const failed: number[] = [];
let [records, kept, steps, virtualMs] = [0, 0, 0, 0];
const startedMs = Date.now();
const years = Number(values.years);
const daysEvery = 30;
if (years > 0) {
  const showDay = (day: number, { answers, clickhouse }: World) => {
    if ((day + 1) % daysEvery === 0)
      console.log(`day ${day + 1}: ${answers.count('kept')} records answered, ${clickhouse.rows.length} rows`);
  };
  note(await runYears(years, first, showDay));
}
for (let seed = first; years === 0 && seed < first + count && failed.length < failuresMax; seed++) {
  const outcome = await runSeed(seed, values.trace);
  if (values.trace) console.log(outcome.trace.join('\n'));
  note(outcome);
  const done = seed - first + 1;
  if (done % progressEvery === 0) console.log(`${done} seeds, ${failed.length} failed`);
  if (outcome.faults.length === 0) continue;
  if (failed.length > 1 || values.trace) continue;
  const rerun = await runSeed(seed, true);
  const isSame = rerun.fingerprint === outcome.fingerprint;
  console.log(
    `${isSame ? 'its schedule' : 'the schedule of a second run, which differs from the first'}:\n${rerun.trace.slice(-traceLines).join('\n')}`,
  );
}
function note(outcome: SeedOutcome): void {
  for (const [name, times] of outcome.hits) hits.set(name, (hits.get(name) ?? 0) + times);
  for (const [what, times] of outcome.repairs) repairs.set(what, (repairs.get(what) ?? 0) + times);
  for (const [what, times] of outcome.bites) {
    const known = bites.get(what) ?? { times: 0, seeds: 0 };
    bites.set(what, { times: known.times + times, seeds: known.seeds + (times > 0 ? 1 : 0) });
  }
  records += outcome.records;
  kept += outcome.kept;
  steps += outcome.steps;
  virtualMs += outcome.virtualMs;
  if (outcome.faults.length === 0) return;
  failed.push(outcome.seed);
  console.log(`FAILED seed ${outcome.seed}\n  ${outcome.faults.join('\n  ')}`);
}

const seconds = (Date.now() - startedMs) / 1000;
const days = (virtualMs / DAY_MS).toFixed(1);
console.log(
  `${years > 0 ? `${years} years` : `${count} seeds`} in ${seconds.toFixed(1)} s (${(process.cpuUsage().user / 1e6).toFixed(0)} s of CPU): ${records} records sent, ${kept} kept, ${steps} steps, ${days} days of virtual time`,
);
for (const [name, times] of [...hits].sort(([, one], [, other]) => other - one)) console.log(`  ${name}: ${times}`);
console.log('effects (in how many seeds):');
for (const [what, { times, seeds }] of bites) console.log(`  ${what}: ${times} (${seeds})`);
console.log(`sinks: ${[...repairs].map(([what, times]) => `${what} ${times}`).join(', ')}`);
console.log(failed.length === 0 ? 'none failed' : `failed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;
