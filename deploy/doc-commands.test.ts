/** Every command that a page shows is run by a test, or its section says that it is not. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { blocksOf, followedPages } from './docs-run/blocks.ts';
import { instructions } from './local/instructions.ts';

const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync('docs').map((name) => join('docs', name)),
].filter((name) => name.endsWith('.md'));

/** Commands, the file that runs them, and the words there that do. */
const runs: readonly (readonly [command: RegExp, file: string, words: string])[] = [
  [/^npm ci$/, '.ci/run', "step 'npm ci' npm ci"],
  [/^npm start$/, 'deploy/journeys/stack.ts', "'npm', 'start'"],
  [/^npm test( -- --project \w+ \S+)?$/, '.ci/run', 'tests bare test'],
  [/^npm run test:all$/, '.ci/run', 'tests whole test:all'],
  [/^npm run check$/, '.ci/run', 'npm run --silent check'],
  [/^npm run build$/, '.ci/run', 'npm run --silent build'],
  [/^npm run --silent sbom > sbom.json$/, 'deploy/supply-chain.test.ts', "'--silent', 'sbom'"],
  [/^npm run admin -- --help$/, 'api/admin/admin.live.test.ts', "admin(['--help']"],
  [/^npm run admin -- list$/, 'api/admin/admin.live.test.ts', "admin(['list'])"],
  [/^npm run migrate$/, 'deploy/journeys/move.test.ts', "atTarget('migrate')"],
  [
    /^npm run admin -- export-stores --to \S+$/,
    'deploy/journeys/move.test.ts',
    "stage.admin('export-stores', '--to', exported)",
  ],
  [
    /^npm run admin -- import-stores --from \S+$/,
    'deploy/journeys/move.test.ts',
    "atTarget('admin', 'import-stores', '--from', exported)",
  ],
  [/^psql "\$ADMINISTRATOR_URL"/, 'deploy/faults/machines-stage.ts', 'createDatabaseUsers()'],
  [/^npm run admin -- audit$/, 'deploy/journeys/backup.test.ts', "stage.admin('audit')"],
  [/^npm run admin -- replay --from TIME$/, 'ingest/replay.live.test.ts', "admin('replay', '--from'"],
  [/^npm run admin -- rebuild --from DATE$/, 'ingest/replay.live.test.ts', "admin('rebuild', '--from'"],
  [
    /^npm run admin -- erase --organization Engines --user /,
    'deploy/journeys/erase.test.ts',
    "admin('erase', '--organization'",
  ],
];
const isNotRun = /\bnot\b\W{0,4}run\b/i;

interface Command {
  readonly page: string;
  readonly line: string;
  /** The text between the headings around it. */
  readonly section: string;
}

/** The lines of a page's shell blocks; lines of a here-document are not commands. */
function commandsOf(page: string): Command[] {
  const sections = readFileSync(page, 'utf8').split(/^(?=#{1,3} )/m);
  return sections.flatMap((section) =>
    [...section.matchAll(/^ *```sh\n([\s\S]*?)^ *```$/gm)].flatMap(([, block = '']) =>
      block
        .replaceAll(/<<'(\w+)'\n[\s\S]*?\n\1$/gm, '')
        .replaceAll(/\\\n\s*/g, '')
        .split('\n')
        .filter((line) => line.trim() !== '' && !line.trim().startsWith('#'))
        .map((line) => ({ page, line: line.trim(), section })),
    ),
  );
}

const tour = instructions({
  ...{ apiUrl: 'https://127.0.0.1:8443/v1', redirectorHttp: 'http://127.0.0.1:8080', redirectorHttps: '' },
  ...{ dataDir: '.data', certFile: '.data/tls/cert.pem', processesFile: '', loginFile: '.data/login.json' },
  ...{ email: '', newPassword: null },
}).split('\n');

/** Whether a test runs each command of the line, or the line is one of those that `npm start` prints, which .ci/on-node runs. */
function isRun(line: string): boolean {
  if (tour.includes(`  ${line}`)) return true;
  const commands = line.replace(/\s+#.*$/, '').split(' && ');
  return commands.every((command) => runs.some(([pattern]) => pattern.test(command)));
}

test('every command of the pages is run by a test, or its section says that it is not', () => {
  const commands = pages.flatMap(commandsOf);
  expect(commands.length).toBeGreaterThan(50);
  // deploy/faults/composed-stage.ts follows containers.md.
  const followed = [...followedPages, 'containers.md'].flatMap((page) =>
    blocksOf(page, readFileSync(`docs/${page}`, 'utf8')),
  );
  const isFollowed = (line: string) =>
    followed.some(({ commands, reason }) => reason === null && commands.includes(line));
  const unmarked = commands.filter(({ line, section }) => !isRun(line) && !isFollowed(line) && !isNotRun.test(section));
  expect(unmarked.map(({ page, line }) => `${page}: ${line}`)).toEqual([]);
});

test('the files that run commands of the pages still do', () => {
  const lines = pages.flatMap(commandsOf).map(({ line }) => line.replace(/\s+#.*$/, ''));
  for (const [command, file, words] of runs) {
    expect(existsSync(file) ? readFileSync(file, 'utf8') : '', String(command)).toContain(words);
    expect(
      lines.some((line) => line.split(' && ').some((one) => command.test(one))),
      String(command),
    ).toBe(true);
  }
  expect(readFileSync('.ci/on-node', 'utf8')).toContain('analytics\\/overview');
});

test('the tour in README is the one that npm start prints', () => {
  const lines = commandsOf('README.md').filter(({ section }) => section.startsWith('## Tour'));
  expect(lines).toHaveLength(8);
  for (const { line } of lines) expect(tour).toContain(`  ${line}`);
});
