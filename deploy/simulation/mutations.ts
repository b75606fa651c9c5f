/**
 * `tsx deploy/simulation/mutations.ts [--seeds N] [--only PATTERN]`: shows that the simulation fails when a safeguard
 * of the record path is removed. Each mutation replaces a few words of one file while the simulation is bundled; no
 * file is changed. Prints the first seed that fails.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build, type Plugin } from 'esbuild';
import { type Mutation, mutations } from './mutation-list.ts';

function replacing({ file, from, to }: Mutation): Plugin {
  return {
    name: 'mutation',
    setup(bundle) {
      bundle.onLoad({ filter: new RegExp(`${file.replaceAll('.', '\\.')}$`) }, ({ path }) => {
        const text = readFileSync(path, 'utf8');
        if (!text.includes(from)) throw new Error(`${file} no longer has "${from}": update the mutation`);
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
