/** Writes the results of a measurement as JSON, with the commit and the machine. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '#common/process/paths.ts';

/** Results of this checkout, which Git ignores. */
export const ownFolder = join(packageRoot(), '.data', 'bench');
/** Results that the pages quote, in Git. */
export const publishedFolder = join(packageRoot(), 'bench', 'results');

let folder = ownFolder;

/** From now on, results replace those that the pages quote. */
export function publishResults(): void {
  folder = publishedFolder;
}

/** Writes <name>.json over that of the previous run. */
export function writeResult(name: string, figures: object): void {
  mkdirSync(folder, { recursive: true });
  const load = readFileSync('/proc/loadavg', 'utf8').trim();
  const machine = { cpu: cpus()[0]?.model ?? '', cores: cpus().length, node: process.version, load_at_end: load };
  const command = `npm run bench -- ${process.argv.slice(2).join(' ')}`;
  const origin = { time: new Date().toISOString(), commit: commitOf(), command, machine };
  const file = join(folder, `${name}.json`);
  writeFileSync(file, `${JSON.stringify({ ...origin, ...figures }, null, 2)}\n`);
  console.log(`written to ${file}`);
  if (folder === publishedFolder) console.log('npm run generate updates docs/scaling.md');
}

/** The current commit; empty outside a Git checkout, because a long run must not fail at its end. */
function commitOf(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: packageRoot(), encoding: 'utf8' }).trim();
  } catch {
    return '';
  }
}
