// `npm run test:sdk -- typescript`: everything that is tested about one SDK.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** The command for each language; a new SDK adds its line. */
const commands = {
  kotlin: ['sdk/kotlin/test.mjs'],
  swift: ['sdk/swift/test.mjs'],
  typescript: [
    'node_modules/.bin/vitest',
    'run',
    '--tags-filter=!slow',
    'sdk/typescript',
    'sdk/testing',
    'deploy/journeys/install',
  ],
};

const [language = '', ...more] = process.argv.slice(2);
const command = commands[language];
if (!command) {
  console.error(`usage: npm run test:sdk -- <${Object.keys(commands).join('|')}>`);
  process.exit(2);
}
const [program, ...args] = command;
if (!existsSync(program)) {
  console.error(`${program} is missing: run npm ci`);
  process.exit(2);
}
process.exit(spawnSync(process.execPath, [program, ...args, ...more], { stdio: 'inherit' }).status ?? 1);
