/**
 * `node deploy/packages/run.mjs deploy/simulation/mutations.ts [--seeds N] [--only PATTERN]`: shows that the simulation, or the test that a
 * mutation names, fails when a safeguard of the record path is removed. Each mutation replaces a few words of one file
 * while the simulation is bundled, or in a copy of the repository. Prints the first seed or the first test that fails.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build, type Plugin } from 'esbuild';
import type { Mutation } from './mutation.ts';
import { mutations } from './mutation-list.ts';

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
/** The first test of its file that fails without the safeguard; empty if all pass. */
function failingTest({ file, from, to, test = '' }: Mutation): string {
  const copy = mkdtempSync(join(tmpdir(), 'mutation-'));
  try {
    const { stdout } = spawnSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: root });
    const isNeeded = (path: string) => path !== '' && !path.startsWith('docs/dashboard/');
    for (const path of stdout.toString().split('\0').filter(isNeeded)) cpSync(join(root, path), join(copy, path));
    for (const path of ['node_modules', 'deploy/packages/nats-server/node_modules'])
      symlinkSync(join(root, path), join(copy, path));
    writeFileSync(
      join(copy, file),
      readFileSync(join(copy, file), 'utf8').replace(from, () => to),
    );
    const project = test.endsWith('.live.test.ts') ? 'live' : 'unit';
    const args = ['deploy/packages/run.mjs', 'vitest', 'run', '--project', project, test];
    const run = spawnSync(process.execPath, args, {
      cwd: copy,
      encoding: 'utf8',
      env: { ...process.env, CI: 'true', NO_COLOR: '1' },
    });
    return run.status === 0 ? '' : (/^.*FAIL.*> (.*)$/m.exec(run.stdout + run.stderr)?.[1] ?? 'the run fails');
  } finally {
    rmSync(copy, { recursive: true });
  }
}

for (const [at, mutation] of mutations.entries()) {
  if (!new RegExp(values.only).test(mutation.without)) continue;
  if (mutation.test !== undefined) {
    const failed = failingTest(mutation);
    console.log(`without ${mutation.without}: ${failed === '' ? 'NOT NOTICED' : `"${failed}"`} (${mutation.test})`);
    if (failed === '') process.exitCode = 1;
    continue;
  }
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
