/**
 * `npm run bench`: every measurement at a small size, and a page with charts. `npm run bench -- <what> [options]`: one
 * measurement, which prints a table; those with servers write .data/bench/<what>.json, or with --publish
 * bench/results/<what>.json, which the pages quote. `npm run bench -- --against URL`: load on a deployed system.
 */
import { benchAll } from './all.ts';
import { AgainstError, benchAgainst } from './load/against.ts';
import { ownFolder, publishResults } from './load/result-file.ts';
import { writeReport } from './report-page.ts';

type Bench = (args: string[]) => Promise<void> | void;

const benches: Readonly<Record<string, readonly [options: string, load: () => Promise<Bench>]>> = {
  all: ['[--only redirect,visitors,path,events,match,analytics,lists]', async () => benchAll],
  redirect: [
    '[--links 1,10000,1000000] [--seconds 3] [--rounds 3] [--only part of a name, writes nothing]',
    async () => (await import('./load/redirect.ts')).benchRedirect,
  ],
  visitors: ['[--visits 1000] [--rounds 3]', async () => (await import('./load/visitors.ts')).benchVisitors],
  analytics: [
    '[--clicks 1000000,10000000,100000000] [--rounds 200] [--keep folder]',
    async () => (await import('./load/analytics.ts')).benchAnalytics,
  ],
  path: [
    '[--rates 5000,10000,20000] [--seconds 8] [--rounds 3] [--people 50000]',
    async () => (await import('./load/path.ts')).benchPath,
  ],
  events: ['[--seconds 2] [--rounds 4]', async () => (await import('./load/events.ts')).benchEvents],
  match: ['[--seconds 5] [--clicks 1000000]', async () => (await import('./load/match.ts')).benchMatch],
  matching: [
    '[--installs 100000] [--seed 1] [--tap off,ios,mobile] [--strangers 50]',
    async () => (await import('./load/matching.ts')).benchMatching,
  ],
  lists: ['[--links 100000] [--requests 300]', async () => (await import('./load/lists.ts')).benchLists],
  scaling: [
    '[--rate 10000,100000,1000000]   a calculation that runs nothing',
    async () => (await import('./scaling-page.ts')).printScaling,
  ],
  page: ['  writes the page with charts again, from the existing results', async () => printPage],
};

function printPage(): void {
  console.log(writeReport(ownFolder));
}

function printUsage(): void {
  console.log('npm run bench            every measurement at a small size, and a page with charts');
  for (const [name, [options]] of Object.entries(benches)) console.log(`npm run bench -- ${name} ${options}`);
  console.log('  with --publish, the result replaces the one in bench/results that the pages quote');
  console.log('npm run bench -- --against URL [--seconds 10] [--connections 64] [--rate N]');
}

const [what = 'all', ...args] = process.argv.slice(2);
const publish = args.indexOf('--publish');
if (publish !== -1) {
  args.splice(publish, 1);
  publishResults();
}
const bench = Object.hasOwn(benches, what) ? benches[what] : undefined;

if (what.startsWith('--against')) {
  try {
    await benchAgainst([what, ...args]);
    printPage();
  } catch (error) {
    if (!(error instanceof AgainstError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
} else if (bench) {
  const run = await bench[1]();
  await run(args);
} else {
  printUsage();
  process.exitCode = what === '--help' ? 0 : 1;
}
