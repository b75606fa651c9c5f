/**
 * `tsx deploy/simulation/mutations.ts [--seeds N] [--only PATTERN]`: the simulation must notice when a repair of the record path is taken out again.
 * Each mutation replaces a few words of one file while the simulation is bundled; no file is changed. Prints how many seeds it took.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build, type Plugin } from 'esbuild';

interface Mutation {
  readonly without: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const mutations: readonly Mutation[] = [
  {
    without: 'purging the log of what is committed',
    file: 'ingest/log-room.ts',
    from: 'fill.bytes >= fill.bytesMax * purgeAbove',
    to: 'false',
  },
  {
    without: 'ending the segment of an idle process',
    file: 'common/log/journal.ts',
    from: 'const idleTicksMax = 30;',
    to: 'const idleTicksMax = 1e9;',
  },
  {
    without: 'the marks of lanes that were silent for long',
    file: 'ingest/sink.ts',
    from: 'await this.#recallMarks(frames);',
    to: '',
  },
  {
    without: 'leaving out what is committed by a mark that was looked up',
    file: 'ingest/sink.ts',
    from: 'const fresh = this.#queue.withoutCommitted(frames);',
    to: 'const fresh = frames;',
  },
  {
    without: 'comparing the marks with what ClickHouse stores above them',
    file: 'ingest/recovery.ts',
    from: 'if (newestNo > 0) await',
    to: 'if (newestNo < 0) await',
  },
  {
    without: 'finding out that Postgres went back under a living owner',
    file: 'deploy/simulation/simulated-postgres.ts',
    from: 'if (row === undefined || !isKnown || open.length > 0)',
    to: 'if (row === undefined)',
  },
  {
    without: 'writing down what Postgres had lost',
    file: 'ingest/recovery.ts',
    from: 'await sink.learn(entry, Math.max(newest.raw, newest.rolled));',
    to: 'sink.doubtful.addBatch(entry);',
  },
  {
    without: 'the fence',
    file: 'ingest/sink.ts',
    from: 'const fence = await this.patiently(() => store.fence(this.#partition, batchNoMin, this.#name, isNewOwner));',
    to: 'const fence = { batchNoMin, owner: this.#name };',
  },
  {
    without: 'shutting out what was begun before a rollup is filled in once more',
    file: 'ingest/sink.ts',
    from: 'if (tries > 0) await this.fence(this.#fence + 1);\n      const missing',
    to: 'const missing',
  },
  {
    without: 'ending when the fence is that of another owner',
    file: 'ingest/sink.ts',
    from: 'if (fence.owner !== this.#name)',
    to: 'if (false)',
  },
  {
    without: 'filling in rollups',
    file: 'ingest/sink.ts',
    from: 'for (const rollup of missing) {',
    to: 'for (const rollup of missing.slice(99)) {',
  },
  {
    without: 'syncing the segment that a sync began with',
    file: 'common/log/journal.ts',
    from: 'await current?.sync();',
    to: 'await this.#segment?.sync();',
  },
  {
    without: 'stamping a log that was lost',
    file: 'ingest/log-room.ts',
    from: "if (fill?.installationId === '')",
    to: 'if (false)',
  },
  {
    without: 'publishing again what the log has thrown out for its age',
    file: 'common/log/lane-progress.ts',
    from: 'now - logAgeMaxMs',
    to: '0',
  },
  {
    without: 'seeing that the lease is gone while strays wait',
    file: 'ingest/partition-owner.ts',
    from: 'this.#lease.isLost || ',
    to: '',
  },
  {
    without: 'storing again what ClickHouse lost in a restore',
    file: 'ingest/revision.ts',
    from: 'if (revision.replay_from !== null)',
    to: 'if (false)',
  },
  {
    without: 'keeping in the log what is to be replayed',
    file: 'ingest/log-room.ts',
    from: ' || (await this.#isReplayWanted(partition))',
    to: '',
  },
  {
    without: 'correcting rollups after a restore',
    file: 'ingest/revision.ts',
    from: 'cellsCorrected += await sink.correct(day);',
    to: '',
  },
  {
    without: 'waiting for Postgres in a replay',
    file: 'ingest/revision.ts',
    from: 'recovered.patiently(() => parts.checkpoints.marks(partition))',
    to: 'parts.checkpoints.marks(partition)',
  },
  {
    without: 'reading to the end of the log in a replay, whatever clocks say',
    file: 'ingest/revision.ts',
    from: 'queue.counters.committed_frames >= framesWanted',
    to: 'position >= time.now()',
  },
  {
    without: 'looking ids up that may have come before',
    file: 'ingest/attribution/first-seen.ts',
    from: 'recent[at] === undefined && this.#isMaybe(claim)',
    to: 'recent[at] === undefined && at < 0',
  },
  {
    without: 'keeping the uses of an id apart by day',
    file: 'ingest/attribution/first-seen.ts',
    from: 'if (near === undefined && !isPast(known, claim)) near = known;',
    to: 'near = known;',
  },
  {
    without: 'claims that stand in Postgres',
    file: 'gateway/match/matching.ts',
    from: 'const outcome = await claims.claim(claim);',
    to: "const outcome = { state: 'claimed' } as ClaimOutcome;",
  },
  {
    without: 'reading clicks again that Redis has lost',
    file: 'ingest/attribution/recent-clicks-feed.ts',
    from: 'this.#isRereadDue ||= saved === null;',
    to: '',
  },
];

function replacing({ file, from, to }: Mutation): Plugin {
  return {
    name: 'mutation',
    setup(bundle) {
      bundle.onLoad({ filter: new RegExp(`${file.replaceAll('.', '\\.')}$`) }, ({ path }) => {
        const text = readFileSync(path, 'utf8');
        if (!text.includes(from))
          throw new Error(`${file} has no "${from}" any more: the mutation must be written again`);
        return { contents: text.replace(from, () => to), loader: 'ts' };
      });
    },
  };
}

const { values } = parseArgs({
  options: { seeds: { type: 'string', default: '2000' }, only: { type: 'string', default: '' } },
});
const root = join(import.meta.dirname, '..', '..');
const folder = join(root, 'node_modules', '.cache', 'simulation');
mkdirSync(folder, { recursive: true });
for (const [at, mutation] of mutations.entries()) {
  if (!new RegExp(values.only).test(mutation.without)) continue;
  const outfile = join(folder, `mutation-${at}.mjs`);
  await build({
    entryPoints: [join(root, 'deploy', 'simulation', 'main.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    logLevel: 'error',
    plugins: [replacing(mutation)],
  });
  const run = spawnSync(process.execPath, [outfile, '--seeds', values.seeds, '--failures', '1'], { encoding: 'utf8' });
  const [, seed = ''] = /^FAILED seed (\d+)$/m.exec(run.stdout) ?? [];
  const why = /^FAILED seed \d+\n {2}(.*)$/m.exec(run.stdout)?.[1]?.slice(0, 90) ?? '';
  console.log(
    `without ${mutation.without}: ${seed === '' ? `NOT NOTICED in ${values.seeds} seeds` : `seed ${seed}: ${why}`}`,
  );
  if (seed === '') process.exitCode = 1;
}
