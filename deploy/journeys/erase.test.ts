/**
 * A person is erased with the operator's command while everything runs; then the whole data folder is searched for
 * their data.
 *
 * @module-tag slow
 */
import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { localClickHouseUrl } from '#api/admin/local-store.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import { MINUTE_MS } from '#common/durations.ts';
import { type Reply, Stack } from './stack.ts';

/** On an idle server, ClickHouse keeps replaced files for 8 minutes, and checks for them every 5. */
const inAHurry =
  'old_parts_lifetime = 1, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 1';
const iphone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Mobile/15E148 Safari/604.1';

let stack: Stack;
let call: Awaited<ReturnType<Stack['loggedIn']>>;
let app: { id: string; host: string; api_key: string };
let link: { id: string; short_code: string };

interface Person {
  readonly device: string;
  readonly user: string;
  readonly address: string;
  install: string;
}
const person = (n: number): Person => ({
  device: `device-${n}-${'x'.repeat(12)}`,
  user: `person-${n}@people.example`,
  address: `203.0.113.${70 + n}`,
  install: '',
});
const [ada, bob] = [person(1), person(2)];

beforeAll(async () => {
  stack = await Stack.start({
    JOURNAL_SEGMENT_BYTES: '65536',
    TRUSTED_PROXIES: '127.0.0.1',
    RATE_LIMIT_EVENTS: '100000',
    RATE_LIMIT_MATCH: '100000',
  });
  call = await stack.loggedIn();
  const made = await call('/apps', { method: 'POST', body: { name: 'Tour', fallback_url: 'https://example.com/' } });
  app = made.json();
  const settings = { settings: { privacy_mode: 'full_ip' } };
  expect((await call(`/apps/${app.id}`, { method: 'PATCH', body: settings })).status).toBe(200);
  link = (await call('/links', { method: 'POST', body: { app_id: app.id, path: '/a' } })).json();
}, 2 * MINUTE_MS);
afterAll(() => stack.stop());

const visit = ({ address }: Person) =>
  stack.redirector(`/${link.short_code}`, {
    headers: { host: app.host, 'user-agent': iphone, 'x-forwarded-for': address },
  });
const sdk = (path: string, { address }: Person, body: object): Promise<Reply> => {
  const headers = { 'x-api-key': app.api_key, 'x-forwarded-for': address, 'user-agent': iphone };
  return stack.api(`/sdk/${path}`, { method: 'POST', headers, body });
};

/** Taps, installs, and acts as a user. */
async function lives(who: Person): Promise<void> {
  const { clicks } = await totals();
  expect((await visit(who)).status).toBe(302);
  // An install that arrives before its click is stored is organic, and the click is not linked to this person.
  await expect.poll(async () => (await totals()).clicks, { timeout: MINUTE_MS, interval: 200 }).toBe(clicks + 1);
  const device = { device_id: who.device, platform: 'ios', os_version: '18.5' };
  const install = await sdk('install', who, device);
  expect(install.status, install.text).toBeLessThan(300);
  expect(install.json(), install.text).toMatchObject({ attributed: true });
  who.install = install.json<{ install_id: string }>().install_id;
  const event = { name: 'signup', install_id: who.install, device_id: who.device, user_id: who.user };
  expect((await sdk('events', who, { ...event, properties: { mail: who.user } })).status).toBe(202);
}

const filesWith = (text: string) =>
  spawnSync('grep', ['-rlaF', text, stack.dataDir], { encoding: 'utf8' }).stdout.split('\n').filter(Boolean);
const marksOf = ({ device, user, address, install }: Person) => [device, user, address, install];

async function totals(): Promise<{ clicks: number; installs: number; events: number }> {
  const reply = await call(`/analytics/overview?app_id=${app.id}`);
  const { clicks, installs, events } = reply.json<{ totals: Record<string, number> }>().totals;
  return { clicks: Number(clicks), installs: Number(installs), events: Number(events) };
}

async function admin(...words: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('env', [
    `DATA_DIR=${stack.dataDir}`,
    ...['npm', 'run', '--silent', 'admin', '--', ...words],
  ]);
  return stdout;
}

test("an erasure while everything runs leaves no byte of the person in any file, and keeps every sum and everyone else's data", {
  timeout: 12 * MINUTE_MS,
}, async () => {
  await lives(ada);
  await lives(bob);
  const once = { clicks: 2, installs: 2, events: 2 };
  await expect.poll(totals, { timeout: MINUTE_MS, interval: 500 }).toEqual(once);
  // Proves that the search works: it must find the person before the erasure.
  for (const mark of [...marksOf(ada), ...marksOf(bob)]) expect(filesWith(mark), mark).not.toEqual([]);

  const clickhouse = new ClickHouse({ url: localClickHouseUrl(stack.dataDir) });
  for (const table of ['clicks', 'installs', 'events', 'dead_letters']) {
    await clickhouse.command(`ALTER TABLE ${table} MODIFY SETTING ${inAHurry}`);
  }
  await clickhouse.close();

  const said = await admin('erase', '--organization', 'My organization', '--user', ada.user);
  expect(said).toMatch(/^blanked 1 clicks, 1 installs, 1 events, \d+ matches, 0 refused records$/m);
  expect(said).toContain('a replay cannot go back before this moment');

  // A journal's file is deleted once it is full and committed, so this fills it.
  const more = 160;
  for (let n = 0; n < more; n++) {
    await visit(bob);
    const filling = { name: 'open', device_id: bob.device, properties: { text: 'x'.repeat(600) } };
    expect((await sdk('events', bob, filling)).status).toBe(202);
  }
  const found = () => Object.fromEntries(marksOf(ada).map((mark) => [mark, filesWith(mark)]));
  const nowhere = Object.fromEntries(marksOf(ada).map((mark) => [mark, []]));
  // The setting takes effect at the next cleanup of a table, which an idle server makes after at most five minutes.
  await expect.poll(found, { timeout: 6 * MINUTE_MS, interval: 1_000 }).toEqual(nowhere);
  for (const mark of marksOf(bob)) expect(filesWith(mark), mark).not.toEqual([]);
  const later = { clicks: 2 + more, installs: 2, events: 2 + more };
  await expect.poll(totals, { timeout: MINUTE_MS, interval: 500 }).toEqual(later);
  // From now on the device is a new person.
  await lives(ada);
  await expect.poll(async () => (await totals()).installs, { timeout: MINUTE_MS, interval: 500 }).toBe(3);
});
