/**
 * `npm run test:docs`: follows production.md, upgrade.md and backup.md word by word on an empty Debian with systemd, and fails
 * if a command does. Then it upgrades to a release that does not start.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '#common/process/paths.ts';
import { type Block, blocksOf, type followedPages, type Substitution, substituted } from './blocks.ts';
import { DebianMachine, neededPrograms } from './machine.ts';
import { reasonAgainst } from './outside.ts';
import type { Shell } from './shell.ts';

const substitutions: Readonly<Record<(typeof followedPages)[number], readonly Substitution[]>> = {
  'production.md': [
    ['YOUR_COPY_OF_THIS_REPOSITORY', '/mnt/sources'],
    // Caddy signs certificates itself, and the machine trusts it.
    [
      'cp deploy/single/Caddyfile /etc/caddy/Caddyfile',
      "sed '0,/^{/s//{\\n\\tlocal_certs/' deploy/single/Caddyfile >/etc/caddy/Caddyfile",
    ],
    [
      'systemctl restart caddy',
      'systemctl restart caddy\nuntil cp /var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt /usr/local/share/ca-certificates/caddy.crt; do sleep 0.2; done\nupdate-ca-certificates\nuntil curl -fsS -o /dev/null https://api.example.com/v1/version; do sleep 0.5; done',
    ],
  ],
  'upgrade.md': [],
  'backup.md': [],
};

const seconds = (sinceMs: number) => `${Math.round((Date.now() - sinceMs) / 1000)} s`;

async function follow(shell: Shell, page: (typeof followedPages)[number]): Promise<void> {
  const blocks = blocksOf(page, readFileSync(join(packageRoot(), 'docs', page), 'utf8'));
  for (const block of substituted(blocks, substitutions[page])) await runBlock(shell, block);
}

async function runBlock(shell: Shell, { page, line, commands, reason }: Block): Promise<void> {
  const name = `${page}:${line}`;
  if (reason !== null) return console.log(`-- ${name} is not run: ${reason}`);
  const startedMs = Date.now();
  console.log(`-- ${name}`);
  await shell.run(commands);
  console.log(`-- ${name}: ok (${seconds(startedMs)})`);
}

function git(folder: string, ...args: string[]): string {
  const identity = ['-c', 'user.name=docs-run', '-c', 'user.email=docs-run@example.com'];
  return execFileSync('git', ['-C', folder, ...identity, ...args], { encoding: 'utf8' });
}

/** An app with a link, as a person makes them, and visits of it until `stop`. */
const madeLink = `
call() { curl -fsS -H "authorization: Bearer $token" -H 'content-type: application/json' "$@"; }
text() { sed -n 's/.*"'$1'" *: *"\\([^"]*\\)".*/\\1/p'; }
api=https://api.example.com/v1
token=$(token= call -d @/var/lib/signpost/login.json $api/auth/login | text access_token)
app=$(call -d '{"name":"Docs","fallback_url":"https://example.com/"}' $api/apps)
link=$(call -d '{"app_id":"'$(echo "$app" | text id)'","path":"/welcome"}' $api/links)
host=$(echo "$app" | text host)
echo "127.0.0.1 $host" >>/etc/hosts
until curl -fsS -o /dev/null https://$host/$(echo "$link" | text short_code); do sleep 0.5; done
`;
const startVisits = `
node /opt/signpost/source/deploy/docs-run/visits.mjs $host /$(echo "$link" | text short_code) $(echo "$app" | text api_key) >/root/figures.json &
visits=$!
sleep 5
`;
const stopVisits = 'sleep 5; kill $visits; wait $visits; cat /root/figures.json';

interface Figures {
  readonly sent: number;
  readonly failed: Readonly<Record<string, number>>;
  /** Between the first and the last failure. */
  readonly failedForMs: number;
  readonly longestMs: number;
}

const refusedWritesMsMax = 2_000;

function refuseFailures(printed: string): void {
  const figures = JSON.parse(printed.slice(printed.indexOf('{"redirects"'))) as Record<'redirects' | 'writes', Figures>;
  for (const [kind, { sent, failed, failedForMs, longestMs }] of Object.entries(figures))
    console.log(
      `-- during the upgrade: ${sent} ${kind}, failed ${JSON.stringify(failed)} within ${failedForMs} ms, longest ${longestMs} ms`,
    );
  const { redirects, writes } = figures;
  if (Math.min(redirects.sent, writes.sent) < 20) throw new Error('too few requests were sent');
  if (Object.keys(redirects.failed).length > 0) throw new Error('visits failed during the upgrade');
  if (writes.failedForMs > refusedWritesMsMax) throw new Error('writes were refused for too long');
}

/** The Sunday of signpost-backup.service: `date` says so, and there are more backups than are kept, and leftovers. */
const sundayBackup = `
cd /var/lib/signpost-backup
kept=$(ls)
for day in $(seq 11 25); do mkdir "signpost-2020-01-$day"T030000Z; echo '{}' >"signpost-2020-01-$day"T030000Z/backup.json; done
mkdir signpost-2020-02-01T030000Z signpost-2020-02-02T030000Z.trial
touch -d '2 days ago' signpost-2020-02-*
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

async function followAll(folder: string, machine: DebianMachine): Promise<void> {
  const shell = machine.shell();
  await shell.run('cd /root; update-ca-certificates');
  await follow(shell, 'production.md');
  await shell.run(madeLink);
  const work = join(folder, 'work');
  git(folder, 'clone', '--quiet', join(folder, 'sources.git'), work);
  git(work, 'commit', '--quiet', '--allow-empty', '--message=A newer release');
  git(work, 'push', '--quiet');
  await shell.run(startVisits);
  await follow(shell, 'upgrade.md');
  refuseFailures(await shell.run(stopVisits));
  await follow(shell, 'backup.md');
  console.log('-- the backup of a Sunday');
  if (!trialPassed.test(await shell.run(sundayBackup))) throw new Error('the backup was not tried out');
  await shell.run('curl -fsS -o /dev/null https://$host/$(echo "$link" | text short_code)');

  console.log('-- an upgrade to a release that does not start');
  const start = join(work, 'deploy/local/start.ts');
  execFileSync('sed', [
    '-i',
    "s/  makeDataFolderPrivate(dataDir);/  throw new StartupError('This release is broken.');/",
    start,
  ]);
  git(work, 'commit', '--quiet', '--all', '--message=A broken release');
  git(work, 'push', '--quiet');
  await shell.run(startVisits);
  const printed = await shell.run(
    'before=$(readlink /opt/signpost/current); cd /opt/signpost/source; git pull -q; ! deploy/single/upgrade; [ "$(readlink /opt/signpost/current)" = "$before" ]; systemctl is-active signpost',
  );
  if (!/This release is broken/.test(printed) || !/runs again/.test(printed)) throw new Error('it did not go back');
  refuseFailures(await shell.run(stopVisits));
  shell.end();
}

async function main(): Promise<void> {
  const reason = reasonAgainst(neededPrograms);
  if (reason !== '') return console.log(`skipped: ${reason}`);
  const startedMs = Date.now();
  const folder = mkdtempSync(join(tmpdir(), 'signpost-docs-sources-'));
  git(packageRoot(), 'clone', '--quiet', '--bare', packageRoot(), join(folder, 'sources.git'));
  const machine = await DebianMachine.boot(join(folder, 'sources.git'), (text) => process.stdout.write(text));
  const stop = async () => {
    await machine.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('SIGINT', () => void stop().then(() => process.exit(130)));
  try {
    await followAll(folder, machine);
    console.log(`every command of the pages succeeded (${seconds(startedMs)})`);
  } finally {
    await stop();
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
