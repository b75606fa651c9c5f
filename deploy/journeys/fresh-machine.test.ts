/**
 * A machine from its first start to its restored backup, in one run and in order, with the commands of the pages. What happened is
 * docs/transcript.md.
 *
 * @module-tag slow
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type DnsForTest, dnsForTest } from '#api/testing/dns-server.ts';
import { isInHistory, unpackRelease } from '#deploy/faults/unpacked-release.ts';
import { freePort } from '#deploy/local/ports.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { skipWithout } from '#testing/skip.ts';
import { Caddy, caddyProgram } from './caddy.ts';
import { Shell } from './shell.ts';
import { Stack } from './stack.ts';

/** The commit that made 0.2.0. */
const lastRelease = '730c038';
const [apiHost, customHost] = ['api.example.com', 'links.brand.example'];
const browser = findProgram(['chromium', 'chromium-browser', 'google-chrome']);

let folder: string;
let dns: DnsForTest;
let stack: Stack | undefined;
let caddy: Caddy | undefined;
let shell: Shell;
const page: string[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-machine-'));
  dns = await dnsForTest();
  shell = new Shell({ PATH: process.env['PATH'] ?? '', HOME: folder, CURL_HOME: folder });
});
afterAll(async () => {
  shell.stop();
  await caddy?.stop();
  await stack?.stop();
  await dns.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Without what differs from run to run. */
function lasting(text: string): string {
  const places = [
    [stack?.dataDir, '/var/lib/signpost'],
    [folder, ''],
  ] as const;
  return places
    .reduce((all, [place, name]) => (place === undefined ? all : all.replaceAll(place, name)), text)
    .replaceAll(/\b(app|lnk|org|usr)_[0-9a-z]{26}/g, '$1_…')
    .replaceAll(/127\.0\.0\.1:\d+/g, '127.0.0.1:8080')
    .replaceAll(/"version":"[\d.]+"/g, '"version":"…"')
    .replaceAll(/\d{4}-\d\d-\d\d to .*: \d+ days/g, '… days')
    .replaceAll(/since \d{4}-\d\d-\d\dT[\d:.]+Z/g, 'since …')
    .replaceAll(/\b\d[\d.,]* (ms|s|MB|MiB|KiB|kB|bytes|B)\b/g, '… $1');
}

function step(title: string, text: string): void {
  page.push(`## ${title}`, text);
}

/** Runs a command and adds it to the page with what it printed. */
async function run(command: string, shown = command): Promise<string> {
  const output = await shell.run(command);
  const lines = [`$ ${shown}`, ...(output === '' ? [] : [output])].join('\n');
  page.push(`\`\`\`text\n${lasting(lines)}\n\`\`\``);
  return output;
}

/** The commands that systemd runs, from the unit of the service. */
function commandOf(name: 'ExecStart' | 'ExecStartPre'): string[] {
  const unit = readFileSync('deploy/single/signpost.service', 'utf8');
  return (new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? '').split(' ');
}

/** The lines of the tour in README that define `call` and `text`, log in, and make an app and a link. */
function tourLines(): string[] {
  const tour = /## Tour[\s\S]*?```sh\n([\s\S]*?)```/.exec(readFileSync('README.md', 'utf8'))?.[1] ?? '';
  return tour.trim().split('\n');
}

const countOf = (link: string) =>
  `for try in $(seq 50); do call "$api/analytics/overview?link_id=${link}" | grep -o '"clicks":[1-9][0-9]*' | head -n 1 | cut -d : -f 2 | grep . && break; sleep 0.2; done`;

/** As signpost.env has them, but on the test's own ports and with the test's DNS. */
async function settingsOfService(): Promise<Record<string, string>> {
  const lines = readFileSync('deploy/single/signpost.env', 'utf8').split('\n');
  const given = lines.filter((line) => /^[A-Z]/.test(line)).map((line) => line.split('=') as [string, string]);
  const { DATA_DIR, REDIRECTOR_HTTP_PORT, METRICS_PORT, ...settings } = Object.fromEntries(given);
  expect([DATA_DIR, REDIRECTOR_HTTP_PORT, METRICS_PORT]).not.toContain(undefined);
  return { ...settings, API_HTTP_PORT: String(await freePort()), DNS_SERVERS: dns.address };
}

test('following the pages, a machine is tried, upgraded, put on a domain, backed up, lost and restored, and every click is counted', {
  timeout: 600_000,
}, async (context) => {
  skipWithout(caddyProgram !== undefined, 'caddy', context);
  skipWithout(browser !== undefined, 'chromium', context);
  skipWithout(isInHistory(lastRelease), 'the commit of the last release (a whole clone)', context);
  const release = mkdtempSync(join(folder, 'release-'));
  unpackRelease(lastRelease, release);
  const settings = await settingsOfService();

  step('Try version 0.2.0', 'As the README says: `npm start`, then the tour.');
  stack = await Stack.start({ ...settings, ADMIN_PASSWORD: '', SHORT_LINK_DOMAIN: 'go.example.com' }, release);
  const { dataDir, redirectorPort } = stack;
  const [addresses = '', ...tour] = tourLines();
  await shell.run(addresses.replace('8443', String(stack.apiPort)).replace('.data/', `${dataDir}/`));
  for (const line of tour) {
    const adapted = line.replace('@.data/', `@${dataDir}/`).replace(':8080', `:${redirectorPort}`);
    await run(adapted, line);
  }
  expect(page.at(-1)).toMatch(/\n1\n```$/);
  await shell.run('first=$(echo "$link" | text id)');

  step('Upgrade it', 'This version replaces the release, and starts as the service starts it.');
  expect(await stack.interrupt()).toBe(0);
  const settingsText = Object.entries({ ...settings, DATA_DIR: dataDir }).map(([name, value]) => `${name}='${value}'`);
  writeFileSync(join(folder, 'signpost.env'), `${settingsText.join('\n')}\n`);
  await shell.run(`set -a; . ${join(folder, 'signpost.env')}; set +a`);
  await run(commandOf('ExecStartPre').join(' '));
  await stack.launch(undefined, commandOf('ExecStart'));
  page.push(`\`\`\`text\n$ ${commandOf('ExecStart').join(' ')}\n${/^ready$/m.exec(stack.output)?.[0]}\n\`\`\``);
  await run(countOf('$first'), 'call "$api/analytics/overview?link_id=$first"    # the click of 0.2.0');
  expect(page.at(-1)).toMatch(/\n1\n```$/);

  step(
    'Put it on a domain',
    "Caddy with `deploy/single/Caddyfile`, Caddy's own certificate authority, and the names in a DNS server of the test.",
  );
  const listed: { name: string; metrics_url: string }[] = JSON.parse(
    readFileSync(join(dataDir, 'processes.json'), 'utf8'),
  );
  const origin = listed.find(({ name }) => name === 'origin')?.metrics_url ?? '';
  const ports = { apiPort: Number(settings['API_HTTP_PORT']), linkPort: redirectorPort };
  caddy = await Caddy.start({ apiHost, ...ports, tlsQuestion: `${origin}/tls-allowed` });
  writeFileSync(join(folder, '.curlrc'), `connect-to = "::127.0.0.1:${caddy.port}"\ncacert = "${caddy.authority}"\n`);
  await run(`curl -sS https://${apiHost}/v1/version`, `curl https://${apiHost}/v1/version`);
  expect(page.at(-1)).toContain('{"version":"');
  await shell.run(`api=https://${apiHost}/v1 cert=${caddy.authority}`);

  step('Give an app a custom host', 'The test adds the TXT record to the DNS.');
  const host = `{"host":"${customHost}"}`;
  await run(`call -X PATCH -d '${host}' $api/apps/$(echo "$app" | text id) | grep -o '"status" *: *"[a-z]*"'`);
  const appId = await shell.run('echo "$app" | text id');
  dns.records.set(`_signpost.${customHost}`, [`signpost-app=${appId}`]);
  await run(
    `for try in $(seq 100); do call $api/apps/$(echo "$app" | text id) | grep -o '"status" *: *"verified"' && break; sleep 0.5; done`,
  );
  const visit = `curl -sS -o /dev/null -w '%{http_code} %{redirect_url}\\n' -A 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0' https://${customHost}/$(echo "$link" | text short_code)`;
  expect(await run(visit)).toMatch(/^302 https:\/\/example\.com\//);
  await run(countUpTo(2), 'call "$api/analytics/overview?link_id=$first"    # one more');

  step('Log in to the dashboard', `In Chromium, at \`https://${apiHost}/\`, with the password in \`login.json\`.`);
  expect(await linksInDashboard(caddy.port, dataDir)).toContain(customHost);
  page.push('The list of links shows the link on its new host.');

  step('Back it up, lose it, and restore it', 'All data is removed in between.');
  const admin = 'node deploy/packages/run.mjs dist/signpost.js admin';
  await run(
    `${admin} backup ${folder}/backups/signpost-2026-01-31 >/dev/null`,
    'node dist/signpost.js admin backup /backups/signpost-2026-01-31',
  );
  expect(await stack.interrupt()).toBe(0);
  await run(`rm -r ${dataDir}/*`);
  await run(
    `${admin} restore ${folder}/backups/signpost-2026-01-31 >/dev/null`,
    'node dist/signpost.js admin restore /backups/signpost-2026-01-31',
  );
  await stack.launch(undefined, commandOf('ExecStart'));
  expect(await run(`${admin} audit`, 'node dist/signpost.js admin audit')).toContain(
    'lost 0, duplicated 0, rollup difference 0',
  );
  expect(await run(visit)).toMatch(/^302 https:\/\/example\.com\//);
  await run(countUpTo(3), 'call "$api/analytics/overview?link_id=$first"    # the earlier ones, and one more');

  const text = `# Transcript of a fresh machine

This page shows what the commands of [README](../README.md), [production.md](production.md), [upgrade.md](upgrade.md), and
[backup.md](backup.md) print, for readers who want to see them before they run them. \`deploy/journeys/fresh-machine.test.ts\` runs them in this
order and in one run, and writes this page.

The test differs from a real machine in four ways:

- Packages are linked instead of installed by \`npm ci\`.
- systemd does not run, but the commands of its unit do.
- Caddy's own authority issues the certificates.
- \`curl\` and the browser are given the addresses of the names.

${page.join('\n\n').replaceAll('\n```\n\n```text\n', '\n')}
`;
  await expect(text).toMatchFileSnapshot('../../docs/transcript.md');
});

/** Waits until the link has so many clicks, then prints the number. */
function countUpTo(clicks: number): string {
  return `for try in $(seq 100); do call "$api/analytics/overview?link_id=$first" | grep -o '"clicks":${clicks}\\b' | head -n 1 | cut -d : -f 2 | grep . && break; sleep 0.2; done | grep ${clicks}`;
}

/** What the dashboard's list of links shows. */
async function linksInDashboard(port: number, dataDir: string): Promise<string> {
  const login = JSON.parse(readFileSync(join(dataDir, 'login.json'), 'utf8')) as { email: string; password: string };
  const isolated = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'];
  const rules = `--host-resolver-rules=MAP ${apiHost}:443 127.0.0.1:${port}`;
  const chrome = await chromium.launch({ executablePath: browser ?? '', args: [...isolated, '--no-first-run', rules] });
  try {
    const tab = await (await chrome.newContext({ ignoreHTTPSErrors: true })).newPage();
    await tab.goto(`https://${apiHost}/`);
    await tab.getByLabel('Email').fill(login.email);
    await tab.getByLabel('Password').fill(login.password);
    await tab.getByRole('button', { name: 'Log in' }).click();
    await tab.getByRole('link', { name: 'Links', exact: true }).click();
    await tab.getByRole('row').nth(1).waitFor();
    return (await tab.getByRole('table').textContent()) ?? '';
  } finally {
    await chrome.close();
  }
}
