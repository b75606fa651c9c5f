// `npm run check`: every check of the code that needs no server, concurrently where that saves time.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const programs = fileURLToPath(new URL('node_modules/.bin/', import.meta.url));

/** The arguments to check a project's types; what did not change since the last time is not checked again. */
const typesOf = (project) => {
  const known = `node_modules/.cache/tsc/${project.replaceAll('/', '-')}.tsbuildinfo`;
  return ['tsc', '-p', project, '--incremental', '--tsBuildInfoFile', known];
};

/** Two lanes, since a small machine has two cores; each lane runs its steps in order. */
const lanes = [
  [
    ['types', ...typesOf('.')],
    ['format and lint', 'biome', 'ci', '--diagnostic-level=warn', '.'],
    ['unused code', 'knip', '--no-progress'],
    ['generated pages', 'deploy/packages/run.mjs', 'deploy/local/generate.ts', '--check'],
    ['OpenAPI', 'redocly', 'lint', 'docs/openapi.json'],
  ],
  [
    ['rules that need types', 'oxlint', '--type-aware'],
    ['types of the dashboard', ...typesOf('dashboard')],
    ['types of the SDK', ...typesOf('sdk/typescript')],
    ['unit tests and tidy', 'vitest', 'run', '--project', 'unit', '--tags-filter=!slow'],
  ],
];

/** Runs one step and prints its output only if it fails. */
function run([name, command, ...args]) {
  const startedMs = Date.now();
  return new Promise((settle) => {
    const file = command.includes('/') ? command : `${programs}${command}`;
    const child = spawn(process.execPath, [file, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let printed = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        printed += text;
      });
    }
    child.on('close', (code) => {
      const seconds = ((Date.now() - startedMs) / 1000).toFixed(1);
      console.log(`${code === 0 ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
      if (code !== 0) console.log(printed);
      settle(code === 0);
    });
  });
}

const startedMs = Date.now();
const outcomes = await Promise.all(
  lanes.map(async (lane) => {
    let isGood = true;
    for (const step of lane) isGood = (await run(step)) && isGood;
    return isGood;
  }),
);
console.log(`checked in ${((Date.now() - startedMs) / 1000).toFixed(1)} s`);
process.exitCode = outcomes.every(Boolean) ? 0 : 1;
