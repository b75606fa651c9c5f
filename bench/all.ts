/**
 * `npm run bench` alone: runs every measurement at a small size, one after the other, and writes a page with charts.
 * The figures are rough.
 */
import { spawn } from 'node:child_process';
import { createWriteStream, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { packageRoot } from '#common/process/paths.ts';
import { ownFolder } from './load/result-file.ts';
import { writeReport } from './report-page.ts';

/** Options with which all measurements together take some minutes. */
const quick: Readonly<Record<string, readonly string[]>> = {
  redirect: ['--links', '1,1000', '--seconds', '1', '--rounds', '1'],
  visitors: ['--visits', '100', '--rounds', '1', '--warm', '2000'],
  path: ['--rates', '2000', '--seconds', '3', '--rounds', '1'],
  events: ['--seconds', '1', '--rounds', '1'],
  match: ['--seconds', '2', '--clicks', '20000'],
  analytics: ['--clicks', '200000', '--rounds', '20'],
  lists: ['--links', '5000', '--requests', '50'],
};
const longestMs = 15 * 60_000;

export async function benchAll(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: { only: { type: 'string', default: Object.keys(quick).join(',') } },
  });
  const names = values.only.split(',');
  const unknown = names.filter((name) => !(name in quick));
  if (unknown.length > 0) throw new Error(`--only knows ${Object.keys(quick).join(', ')}, not ${unknown.join(', ')}`);
  mkdirSync(ownFolder, { recursive: true });
  const startedMs = Date.now();
  const failed: string[] = [];
  for (const [at, name] of names.entries()) {
    process.stderr.write(`[${at + 1}/${names.length}] ${name} …`);
    const oneStartedMs = Date.now();
    const isDone = await runOne(name, quick[name] ?? []);
    if (!isDone) failed.push(name);
    process.stderr.write(` ${isDone ? 'done' : 'FAILED'} after ${seconds(oneStartedMs)}\n`);
  }
  console.log(`${names.length - failed.length} of ${names.length} in ${seconds(startedMs)}: ${writeReport(ownFolder)}`);
  for (const name of failed) console.log(`${name} failed: ${logOf(name)}`);
  if (failed.length > 0) process.exitCode = 1;
}

const seconds = (sinceMs: number) => `${((Date.now() - sinceMs) / 1000).toFixed(0)} s`;
const logOf = (name: string) => join(ownFolder, `${name}.log`);

/** Runs a measurement in a process of its own, so that it leaves nothing behind for the next. */
function runOne(name: string, options: readonly string[]): Promise<boolean> {
  const log = createWriteStream(logOf(name));
  const words = [join(packageRoot(), 'deploy', 'packages', 'run.mjs'), join('bench', 'main.ts'), name, ...options];
  const child = spawn(process.execPath, words, { cwd: packageRoot(), stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      log.write(chunk);
      process.stderr.write('.');
    });
  }
  const cut = setTimeout(() => child.kill('SIGINT'), longestMs);
  return new Promise((done) => {
    child.on('close', (code) => {
      clearTimeout(cut);
      log.end();
      done(code === 0);
    });
  });
}
