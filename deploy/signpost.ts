/**
 * `node dist/signpost.js COMMAND`: every process and every tool of Signpost under one name, for images and service
 * managers. Each command is a separate file in dist/, so a process loads only its own code.
 */
import { setFlagsFromString } from 'node:v8';
import { allowLargeHeads } from '#common/process/config.ts';
import { nodeOptions } from '#common/process/node-options.ts';
import { releaseVersion } from '#common/process/release.ts';

const commands = {
  start: ['deploy/local/start.js', 'everything on this machine, as npm start does'],
  redirector: ['redirector/main.js', 'answers short links'],
  gateway: ['gateway/main.js', 'the SDK endpoints only'],
  api: ['api/main.js', 'the dashboard API only'],
  origin: ['deploy/local/origin.js', 'the dashboard API and the SDK endpoints on one port'],
  publisher: ['publisher/main.js', 'publishes the journals of this machine to NATS'],
  ingest: ['ingest/main.js', 'stores the records from NATS in ClickHouse'],
  webhooks: ['webhooks/main.js', 'delivers webhooks'],
  migrate: ['deploy/local/migrate.js', 'migrates Postgres and ClickHouse to the newest schema'],
  admin: ['deploy/local/admin.js', 'users, organizations, keys, audits; admin --help lists the commands'],
} as const;

function usage(): string {
  const lines = Object.entries(commands).map(([name, [, about]]) => `  ${name.padEnd(11)}${about}`);
  return [
    'Usage: node dist/signpost.js COMMAND [OPTIONS]',
    '',
    ...lines,
    '  validate   checks all settings and exits; COMMAND --validate checks those of one process',
    '',
    'Settings are environment variables: docs/settings.md.',
  ].join('\n');
}

const [command = ''] = process.argv.slice(2);
const isValidate = command === 'validate';
const name = isValidate ? 'start' : command;
if (Object.hasOwn(commands, name)) {
  for (const flag of nodeOptions) {
    if (flag === '--enable-source-maps') process.setSourceMapsEnabled(true);
    else setFlagsFromString(flag);
  }
  allowLargeHeads();
  const [file] = commands[name as keyof typeof commands];
  const script = new URL(file, import.meta.url);
  process.argv.splice(1, 2, script.pathname, ...(isValidate ? ['--validate'] : []));
  await import(script.href);
} else if (['version', '--version', '-v'].includes(command)) {
  console.log(releaseVersion());
} else {
  const isHelp = ['', 'help', '--help', '-h'].includes(command);
  if (isHelp) console.log(usage());
  else console.error(`Unknown command ${command}.\n\n${usage()}`);
  process.exitCode = isHelp ? 0 : 1;
}
