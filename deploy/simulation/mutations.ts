/**
 * `tsx deploy/simulation/mutations.ts [--seeds N] [--only WORDS]`: the simulation must notice when a repair of the record path is taken out again.
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
    without: 'waiting for a rollup that is being filled in',
    file: 'ingest/sink.ts',
    from: 'if (tries > 0) await this.fence(this.#fence);',
    to: '',
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
  if (!mutation.without.includes(values.only)) continue;
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
