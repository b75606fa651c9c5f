/**
 * The main journey: a user logs in, creates an app and a link, people and bots follow it, and the statistics count
 * them.
 */
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isAlive } from '#deploy/local/ancestry.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { whenQuiet } from '#testing/busy-machine.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { skipWithout } from '#testing/skip.ts';
import { LoadedModules } from './loaded-modules.ts';
import { isRunning, login, Stack } from './stack.ts';
import userAgents from './testing/user-agents.json' with { type: 'json' };

interface Totals {
  readonly clicks: number;
  readonly unique_clicks: number;
  readonly bot_clicks: number;
}
type Caller = Awaited<ReturnType<Stack['loggedIn']>>;

const CLICKS = 1_000;
const people = userAgents.filter((one) => !one.is_bot).length;
const bots = userAgents.length - people;

const modules = new LoadedModules();
let stack: Stack;
let call: Caller;
let app: { id: string; host: string };

beforeAll(async () => {
  stack = await Stack.start({ NODE_OPTIONS: modules.nodeOptions });
  call = await stack.loggedIn();
  app = (
    await call('/apps', { method: 'POST', body: { name: 'Journey', fallback_url: 'https://example.com/' } })
  ).json();
});
afterAll(async () => {
  await stack.stop();
  modules.remove();
});

async function newLink(path: string): Promise<{ id: string; short_code: string; url: string }> {
  const reply = await call('/links', { method: 'POST', body: { app_id: app.id, path, campaign: 'journey' } });
  expect(reply.status, reply.text).toBe(201);
  return reply.json();
}

/** Follows the link `count` times, user agents of the corpus in turn. @returns answered people and bots. */
async function follow(
  code: string,
  count: number,
  betweenHalves?: () => void,
): Promise<{ people: number; bots: number }> {
  const answered = { people: 0, bots: 0 };
  let next = 0;
  const visit = async () => {
    while (next < count) {
      const at = next++;
      if (at === Math.floor(count / 2)) betweenHalves?.();
      const who = userAgents[at % userAgents.length];
      if (!who) throw new Error('the corpus is empty');
      const reply = await stack.redirector(`/${code}`, { headers: { host: app.host, 'user-agent': who.user_agent } });
      expect(reply.status).toBe(302);
      if (who.is_bot) answered.bots++;
      else answered.people++;
    }
  };
  await Promise.all(Array.from({ length: 8 }, visit));
  return answered;
}

async function totalsOf(linkId: string): Promise<Totals> {
  const reply = await call(`/analytics/overview?link_id=${linkId}`);
  expect(reply.status, reply.text).toBe(200);
  return reply.json<{ totals: Totals }>().totals;
}

function settled(linkId: string, clicks: number, botClicks: number, timeout = 20_000) {
  return expect
    .poll(
      async () => {
        const totals = await totalsOf(linkId);
        return [totals.clicks, totals.bot_clicks];
      },
      { timeout, interval: 100 },
    )
    .toEqual([clicks, botClicks]);
}

test(`1,000 clicks with ${people} people's and ${bots} bots' user agents are counted exactly, people and bots separately`, {
  tags: ['slow'],
}, async () => {
  const link = await newLink('/exact');
  const answered = await follow(link.short_code, CLICKS);
  expect(answered.people + answered.bots).toBe(CLICKS);
  await settled(link.id, answered.people, answered.bots);

  const stats = (await call(`/links/${link.id}/stats`)).json<{
    totals: Totals;
    timeseries: { clicks: number }[];
    by_platform: { platform: string; clicks: number }[];
  }>();
  expect(stats.totals.clicks).toBe(answered.people);
  expect(stats.timeseries.reduce((sum, bucket) => sum + bucket.clicks, 0)).toBe(answered.people);
  const perRound = (platform: string) => userAgents.filter((one) => one.platform === platform).length;
  for (const { platform, clicks } of stats.by_platform) {
    expect(Math.abs(clicks - (perRound(platform) * CLICKS) / userAgents.length)).toBeLessThanOrEqual(
      perRound(platform),
    );
  }
});

test('without a collector, no process loads a module of OpenTelemetry, except the API that prom-client requires', async () => {
  const roles = stack.parts.filter(({ name }) => /^(?:origin|redirector-\d+|publisher|ingest|webhooks)$/.test(name));
  expect(roles.length).toBeGreaterThanOrEqual(5);
  for (const { name, pid } of roles) expect(await modules.of(pid), name).toEqual(['@opentelemetry/api']);
});

test('a click is in the overview within 2 seconds', async () => {
  const link = await newLink('/soon');
  const startedMs = Date.now();
  await follow(link.short_code, 1);
  await settled(link.id, 1, 0);
  expect(Date.now() - startedMs).toBeLessThan(whenQuiet(2_000));
});

test('visits of a Firebase long link are figures of the link that the first of them makes', async () => {
  const deepLink = 'https://www.example.com/p/7';
  const settings = { firebase_links: { hosts: ['www.example.com'] } };
  expect((await call(`/apps/${app.id}`, { method: 'PATCH', body: { settings } })).status).toBe(200);
  const userAgent = userAgents.find((one) => one.platform === 'desktop')?.user_agent ?? '';
  const path = `/?apn=&link=${encodeURIComponent(deepLink)}`;
  const visit = async () =>
    (await stack.redirector(path, { headers: { host: app.host, 'user-agent': userAgent } })).headers['location'];
  // Until its redirector knows of the setting, the bare host leads to the app's fallback.
  await expect.poll(visit).toBe(deepLink);
  const { data } = (await call(`/links?app_id=${app.id}&limit=100`)).json<{ data: { id: string; source: string }[] }>();
  const [link, ...others] = data.filter(({ source }) => source === 'visit');
  expect([link?.id, others.length]).toEqual([expect.any(String), 0]);
  const more = await Promise.all([visit(), visit(), visit()]);
  expect(more).toEqual([deepLink, deepLink, deepLink]);
  await settled(link?.id ?? '', 4, 0);
});

// faults.test.ts kills each of them under load, and counts.
testCostlyCases(
  ['clickhouse', 'ingest', 'nats', 'publisher', 'postgres', 'redis'],
  0,
  '1,000 clicks are 1,000 if %s is killed in the middle of them, and afterwards it runs and people can log in',
  async (name) => {
    const link = await newLink(`/killed-${name}`);
    const pid = stack.pidOf(name);
    const answered = await follow(link.short_code, CLICKS, () => process.kill(pid, 'SIGKILL'));
    expect(answered.people + answered.bots).toBe(CLICKS);
    await settled(link.id, answered.people, answered.bots, 40_000);
    expect(stack.pidOf(name)).not.toBe(pid);
    expect(isRunning(stack.pidOf(name))).toBe(true);
    // The API refuses logins until its own connection to the killed server is back.
    const loginStatus = async () => (await stack.api('/auth/login', { method: 'POST', body: login })).status;
    await expect.poll(loginStatus, { timeout: 10_000, interval: 50 }).toBe(200);
  },
);

test('an import whose process is killed while it checks, creates and takes back its links goes on where it was', {
  tags: ['slow'],
  timeout: 600_000,
}, async () => {
  const rows = 20_000;
  const { id } = (await call('/imports', { method: 'POST', body: { app_id: app.id, source: 'csv' } })).json<{
    id: string;
  }>();
  const lines = Array.from({ length: rows }, (_, n) => `imported-${n},https://example.com/page/${n}`);
  const csv = { 'content-type': 'text/csv' };
  const part = { method: 'PUT', headers: csv, body: ['code,destination', ...lines].join('\n') };
  expect((await call(`/imports/${id}/parts/1`, part)).status).toBe(200);
  interface Import {
    readonly state: string;
    readonly progress: { readonly rows_read: number; readonly rows_done: number };
  }
  // Null while the process starts again.
  const now = async () =>
    await call(`/imports/${id}`).then(
      (reply) => (reply.status === 200 ? reply.json<Import>() : null),
      () => null,
    );
  const linksOfImport = async () =>
    (await call(`/links?app_id=${app.id}&search=imported-&limit=1`)).json<{ pagination: { total: number } }>()
      .pagination.total;
  const step = async (name: string, counted: 'rows_read' | 'rows_done', wanted: string) => {
    expect((await call(`/imports/${id}/${name}`, { method: 'POST' })).status).toBe(200);
    const isAmid = async () => {
      const { state, progress } = (await now()) ?? { state: '', progress: { rows_read: 0, rows_done: 0 } };
      return state !== wanted && progress[counted] > 0 && progress[counted] < rows;
    };
    await expect.poll(isAmid, { timeout: 60_000, interval: 5 }).toBe(true);
    const pid = stack.pidOf('origin');
    process.kill(pid, 'SIGKILL');
    await expect.poll(async () => (await now())?.state, { timeout: 150_000, interval: 250 }).toBe(wanted);
    expect(stack.pidOf('origin')).not.toBe(pid);
  };
  await step('check', 'rows_read', 'checked');
  await step('confirm', 'rows_done', 'imported');
  expect(await linksOfImport()).toBe(rows);
  await step('undo', 'rows_done', 'undone');
  expect(await linksOfImport()).toBe(0);
});

const browser = findProgram(['chromium', 'chromium-browser', 'google-chrome']);

test('a link works in a real browser under the address that was handed out, and is one click of a person', async (context) => {
  skipWithout(browser !== undefined, 'chromium', context);
  const link = await newLink('/browser');
  const isolated = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'];
  const rules = 'MAP example.com 127.0.0.1:9';
  const chrome = await chromium.launch({
    executablePath: browser ?? '',
    args: [...isolated, '--disable-sync', '--no-first-run', '--disable-quic', `--host-resolver-rules=${rules}`],
  });
  try {
    // Headless mode is visible in the user agent, and would rightly be counted as a bot.
    const userAgent = userAgents.find((one) => one.platform === 'desktop')?.user_agent ?? '';
    const page = await (await chrome.newContext({ userAgent })).newPage();
    const hop = page.waitForResponse((response) => response.url().endsWith(link.short_code));
    await page.goto(link.url).catch(() => null);
    const response = await hop;
    expect(response.status()).toBe(302);
    expect(response.headers()['location']).toMatch(/^https:\/\/example\.com\//);
  } finally {
    await chrome.close();
  }
  await settled(link.id, 1, 0);
});

test('in a real browser a new owner gets over TLS from the login to an app, a link, its first tap and its first install', {
  tags: ['slow'],
}, async (context) => {
  skipWithout(browser !== undefined, 'chromium', context);
  const email = 'beginner@example.com';
  const settings = [`DATA_DIR=${stack.dataDir}`];
  const words = ['create-user', '--email', email, '--organization', 'Beginners'];
  const created = promisify(execFile)('env', [...settings, 'npm', 'run', '--silent', 'admin', '--', ...words]);
  created.child.stdin?.end(`${login.password}\n`);
  await created;
  const isolated = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'];
  const chrome = await chromium.launch({ executablePath: browser ?? '', args: [...isolated, '--no-first-run'] });
  try {
    const page = await (await chrome.newContext({ ignoreHTTPSErrors: true })).newPage();
    expect(stack.output).toContain(`Dashboard    https://127.0.0.1:${stack.apiPort}/`);
    await page.goto(`https://127.0.0.1:${stack.apiPort}/`);
    await page.getByLabel('Email').fill(email);
    await page.getByLabel('Password').fill(login.password);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByLabel('Name', { exact: true }).fill('First shop');
    await page.getByRole('button', { name: 'Create app' }).click();
    // The guide goes on where it was.
    await page.getByLabel('Destination').waitFor();
    await page.reload();
    await page.getByLabel('Destination').fill('example.com/first');
    await page.getByRole('button', { name: 'Create link' }).click();
    await page.getByRole('img', { name: 'QR code' }).waitFor();
    const [host = '', code = ''] = ((await page.locator('.secret code').textContent()) ?? '').split(/(?::\d+)?\//);
    const userAgent = userAgents.find((one) => one.platform === 'ios')?.user_agent ?? '';
    const tap = await stack.redirector(`/${code}`, { headers: { host, 'user-agent': userAgent } });
    expect(tap.status).toBe(302);
    const tappedMs = Date.now();
    await page.getByText('We saw your tap').waitFor();
    console.log(`the tap was on the screen after ${Date.now() - tappedMs} ms`);
    const [key = ''] = /lk_\w{40}/.exec((await page.locator('pre').textContent()) ?? '') ?? [];
    const body = { platform: 'ios', install_id: 'first-install' };
    const installed = await stack.api('/sdk/install', { method: 'POST', body, headers: { 'x-api-key': key } });
    expect(installed.status).toBe(201);
    await page.getByText('We saw your install').waitFor();
    await page.getByRole('link', { name: 'Open the link page' }).click();
    // The page asks again every 30 seconds.
    await expect.poll(() => page.getByLabel('Clicks', { exact: true }).textContent(), { timeout: 60_000 }).toBe('1');
    // Its session also opens the live feed.
    await page.evaluate(`globalThis.live = [];
      for (const kind of ['hello', 'click'])
        (globalThis.source ??= new EventSource('/v1/live')).addEventListener(kind, () => live.push(kind))`);
    const live = (): Promise<string[]> => page.evaluate('live');
    await expect.poll(live).toEqual(['hello']);
    await stack.redirector(`/${code}`, { headers: { host, 'user-agent': userAgent } });
    await expect.poll(live).toEqual(['hello', 'click']);
  } finally {
    await chrome.close();
  }
});

test('the printed curl lines work as printed: a redirect, and then 1', async () => {
  const lines = stack.printedScript.split('\n');
  const from = lines.findIndex((line) => line.trimStart().startsWith('api='));
  const to = lines.findIndex((line) => line.includes('/analytics/overview'));
  expect(from).toBeGreaterThan(-1);
  expect(to).toBeGreaterThan(from);
  const script = lines.slice(from, to + 1).join('\n');
  // A program of the same name notes its arguments, which every user of the machine can see.
  const folder = mkdtempSync(join(tmpdir(), 'signpost-curl-'));
  const noted = join(folder, 'noted');
  const real = execFileSync('which', ['curl'], { encoding: 'utf8' }).trim();
  writeFileSync(join(folder, 'curl'), `#!/bin/sh\necho "$@" >>${noted}\nexec ${real} "$@"\n`, { mode: 0o755 });
  const { stdout } = await promisify(execFile)('bash', ['-c', script], {
    encoding: 'utf8',
    env: { ...process.env, PATH: `${folder}:${process.env['PATH']}`, ADMIN_PASSWORD: login.password },
  });
  const seen = readFileSync(noted, 'utf8');
  rmSync(folder, { recursive: true });
  expect(seen).toContain('/analytics/overview');
  expect(seen).not.toContain(login.password);
  expect(seen).not.toMatch(/Bearer|ey[\w-]+\.[\w-]+\./);
  expect(stdout).toMatch(/^302 https:\/\/example\.com\/\S*\n1\n$/);
});

test('a visitor with 10 KiB of cookies is redirected', async () => {
  const link = await newLink('/cookies');
  const headers = { host: app.host, cookie: `a=${'x'.repeat(10_240)}` };
  expect((await stack.redirector(`/${link.short_code}`, { headers })).status).toBe(302);
});

test('a launcher killed by kill -9 takes everything with it, and the next start finds the data and the ports', {
  tags: ['slow'],
}, async () => {
  const link = await newLink('/killed');
  await follow(link.short_code, 10);
  await settled(link.id, 10, 0);
  const before = stack.parts.map(({ pid }) => pid);
  expect(before.length).toBeGreaterThanOrEqual(8);
  process.kill(stack.launcherPid, 'SIGKILL');
  await stack.launch();
  expect(before.filter(isAlive)).toEqual([]);
  call = await stack.loggedIn();
  await settled(link.id, 10, 0);
});

test('after Ctrl-C the next start has the data and is ready in 6 seconds', { tags: ['slow'] }, async () => {
  const link = await newLink('/kept');
  await follow(link.short_code, 10);
  await settled(link.id, 10, 0);
  expect(await stack.interrupt()).toBe(0);
  const tookMs = await stack.launch();
  expect(tookMs).toBeLessThan(whenQuiet(6_000));
  call = await stack.loggedIn();
  await settled(link.id, 10, 0);
});

// Last, because nothing runs after it.
test('Ctrl-C ends everything and leaves no process', async () => {
  const pids = stack.parts.map((part) => part.pid);
  expect(await stack.interrupt()).toBe(0);
  await expect.poll(() => pids.filter(isRunning), { timeout: 5_000 }).toEqual([]);
});
