/**
 * `npm run test:docs`: follows production.md, upgrade.md and backup.md word by word on an empty Debian with systemd, and fails
 * if a command does. Upgrades under load, also to releases that do not start, and counts what fails meanwhile.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '#common/process/paths.ts';
import { type Block, blocksOf, type followedPages, substituted } from './blocks.ts';
import { madeLinks, underLoad } from './load.ts';
import { DebianMachine, neededPrograms } from './machine.ts';
import { reasonAgainst } from './outside.ts';
import { git, Releases } from './releases.ts';
import type { Shell } from './shell.ts';
import { substitutions } from './substitutions.ts';

/** Of an upgrade that succeeds, or goes back to the release before. */
const refusedWritesMsMax = 2_000;

const seconds = (sinceMs: number) => `${Math.round((Date.now() - sinceMs) / 1000)} s`;

type Page = (typeof followedPages)[number];

async function follow(shell: Shell, page: Page, after: string | null = null): Promise<void> {
  const blocks = blocksOf(page, readFileSync(join(packageRoot(), 'docs', page), 'utf8'));
  if (after === null)
    for (const [written, run, reason] of substitutions[page])
      console.log(`-- ${page}: instead of\n${written}\n-- this is run, because ${reason}:\n${run}`);
  else if (!blocks.some((block) => block.after === after)) throw new Error(`${page} has nothing to do after: ${after}`);
  for (const block of substituted(blocks, substitutions[page])) {
    if (after === null || block.after === after) await runBlock(shell, block, after);
  }
}

async function runBlock(shell: Shell, block: Block, after: string | null): Promise<void> {
  const name = `${block.page}:${block.line}`;
  if (block.reason !== null) return console.log(`-- ${name} is not run: ${block.reason}`);
  if (block.after !== after) return console.log(`-- ${name} is run later, after: ${block.after}`);
  const startedMs = Date.now();
  console.log(`-- ${name}`);
  await shell.run(block.commands);
  console.log(`-- ${name}: ok (${seconds(startedMs)})`);
}

/** The Sunday of signpost-backup.service: `date` says so, and there are more backups than are kept, and leftovers. */
const sundayBackup = `
cd /var/lib/signpost-backup
kept=$(ls -d signpost-*)
for day in $(seq 11 25); do mkdir "signpost-2020-01-$day"T030000Z; echo '{}' >"signpost-2020-01-$day"T030000Z/backup.json; done
mkdir signpost-2020-02-01T030000Z signpost-2020-02-02T030000Z.trial
touch -d '2 days ago' signpost-2020-02-*
chown -R signpost: signpost-2020-*
printf '#!/bin/sh\\n[ "$*" != "-u +%%u" ] || { echo 7; exit; }\\nexec /bin/date "$@"\\n' >/usr/local/bin/date
chmod 755 /usr/local/bin/date
systemctl start signpost-backup
rm /usr/local/bin/date
journalctl -u signpost-backup -o cat -n 12 --no-pager
[ "$(ls -d signpost-* | wc -l)" = 14 ]
for old in $kept; do [ -e "$old/backup.json" ]; done
[ -e signpost-2020-01-25T030000Z ] && [ ! -e signpost-2020-01-11T030000Z ]
[ ! -e signpost-2020-02-01T030000Z ] && [ ! -e signpost-2020-02-02T030000Z.trial ]
rm -r signpost-2020-*
`;

const trialPassed = /can be restored: everything .*\n.*lost 0, duplicated 0/;
const visit = 'curl -fsS -o /dev/null https://$host$visited';

async function stage(name: string, work: () => Promise<void>): Promise<void> {
  const startedMs = Date.now();
  console.log(`-- ${name}`);
  await work();
  console.log(`-- ${name}: ok (${seconds(startedMs)})`);
}

/** Follows the page's commands, and expects that the upgrade fails. @returns what it printed. */
async function failingUpgrade(shell: Shell): Promise<string> {
  return shell.run(
    'cd /opt/signpost/source; git pull -q; before=$(readlink /opt/signpost/current); ! deploy/single/upgrade',
  );
}

async function upgradeToBroken(shell: Shell): Promise<void> {
  const printed = await failingUpgrade(shell);
  if (!/This release is broken/.test(printed) || !/runs again: .* had migrated nothing/.test(printed))
    throw new Error('it did not go back');
  await shell.run(
    '[ "$(readlink /opt/signpost/current)" = "$before" ]; systemctl is-active signpost; ! ls /var/lib/signpost/bridge',
  );
}

/** Its migration ran, so the code of the release before must not run, and visits are answered by the bridge alone. */
async function upgradeToMigratedAndBroken(shell: Shell): Promise<void> {
  const printed = await failingUpgrade(shell);
  const said = [
    /It is broken once migrated/,
    /has migration 9999_docs_run, which this version does not know/,
    /does not start either: see above\. If \S+ migrated the database/,
  ];
  for (const sentence of said) if (!sentence.test(printed)) throw new Error(`it did not say ${sentence}`);
  await shell.run(
    '[ "$(readlink /opt/signpost/current)" != "$before" ]; ! systemctl is-active signpost; systemctl is-active signpost-bridge',
  );
  await shell.run(visit);
}

async function followAll(folder: string, machine: DebianMachine): Promise<void> {
  const shell = machine.shell();
  await shell.run('cd /root; update-ca-certificates');
  await follow(shell, 'production.md');
  await shell.run(madeLinks);
  const releases = new Releases(folder);

  releases.publish();
  await underLoad(shell, 'an upgrade', refusedWritesMsMax, () => follow(shell, 'upgrade.md'));
  await follow(shell, 'backup.md');
  await stage('the backup of a Sunday', async () => {
    if (!trialPassed.test(await shell.run(sundayBackup))) throw new Error('the backup was not tried out');
  });
  await shell.run(visit);

  releases.publishBroken();
  const broken = 'an upgrade to a release that does not start';
  await stage(broken, () => underLoad(shell, broken, refusedWritesMsMax, () => upgradeToBroken(shell)));

  releases.publishMigratedAndBroken();
  const migrated = 'an upgrade to a release that does not start once it has migrated';
  await stage(migrated, () => underLoad(shell, migrated, null, () => upgradeToMigratedAndBroken(shell)));
  await follow(shell, 'upgrade.md', 'a release migrated the database');
  await shell.run(`${visit}; systemctl is-active signpost`);
  shell.end();
}

const journal = `
systemctl --failed --no-pager
for unit in signpost signpost-bridge signpost-backup caddy; do journalctl -u $unit -n 60 --no-pager | grep -v health_checker | tail -n 30 || true; done
`;

async function main(): Promise<void> {
  const reason = reasonAgainst(neededPrograms);
  if (reason !== '') return console.log(`skipped: ${reason}`);
  const startedMs = Date.now();
  const folder = mkdtempSync(join(tmpdir(), 'signpost-docs-sources-'));
  git(packageRoot(), 'clone', '--quiet', '--bare', packageRoot(), join(folder, 'sources.git'));
  const machine = await DebianMachine.boot(join(folder, 'sources.git'), (text) => process.stdout.write(text));
  console.log(`-- an empty Debian runs (${seconds(startedMs)})`);
  const stop = async () => {
    await machine.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void stop().then(() => process.exit(130)));
  try {
    await followAll(folder, machine);
    console.log(`every command of the pages succeeded (${seconds(startedMs)})`);
  } catch (error) {
    console.log('-- what the machine says:');
    await machine.shell().run(journal);
    throw error;
  } finally {
    await stop();
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
