/** The launcher under rough treatment: killed, started twice, its ports taken. */
import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { freePort } from '#deploy/local/ports.ts';
import { startPostgres } from '#deploy/local/servers.ts';

let folder = '';
let ports: string[] = [];
const launched: Launched[] = [];

interface Launched {
  readonly child: ChildProcess;
  readonly text: () => string;
  /** Exit code; null if a signal ended it. */
  readonly ended: Promise<number | null>;
}

function launch(more: readonly string[] = []): Launched {
  const names = ['API_PORT', 'REDIRECTOR_HTTP_PORT', 'REDIRECTOR_HTTPS_PORT'];
  const settings = names.map((name, at) => `${name}=${ports[at]}`);
  const words = [
    ...settings,
    `DATA_DIR=${folder}`,
    'REDIRECTOR_PROCESSES=1',
    ...more,
    process.execPath,
    'build.mjs',
    'start',
  ];
  const child = spawn('env', words, { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let text = '';
  child.stdout.on('data', (chunk) => {
    text += String(chunk);
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const it = { child, text: () => text, ended };
  launched.push(it);
  return it;
}

function ready(one: Launched): Promise<void> {
  return vi.waitFor(() => expect(one.text()).toMatch(/^ready$/m), { timeout: 180_000, interval: 50 });
}

function pids(): number[] {
  const listed: { pid: number }[] = JSON.parse(readFileSync(join(folder, 'processes.json'), 'utf8'));
  return listed.map((one) => one.pid);
}

function isRunning(pid: number): boolean {
  return existsSync(`/proc/${pid}`) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-launcher-'));
  ports = [String(await freePort()), String(await freePort()), String(await freePort())];
});

afterEach(async () => {
  for (const { child } of launched) child.kill('SIGTERM');
  await Promise.all(launched.splice(0).map((one) => one.ended));
  rmSync(folder, { recursive: true, force: true });
});

test('after a kill -9 of the launcher the next start has the generated login, and a stop then ends everything', {
  tags: ['slow'],
}, async () => {
  const first = launch();
  await ready(first);
  const before = pids();
  expect(before.length).toBeGreaterThanOrEqual(8);
  const login = readFileSync(join(folder, 'login.json'), 'utf8');
  first.child.kill('SIGKILL');
  const second = launch();
  await ready(second);
  expect(before.filter(isRunning)).toEqual([]);
  expect(readFileSync(join(folder, 'login.json'), 'utf8')).toBe(login);
  second.child.kill('SIGTERM');
  expect(await second.ended).toBe(0);
});

test('every process that is killed is restarted, with a line that says so', { tags: ['slow'] }, async () => {
  const running = launch();
  await ready(running);
  const before = pids();
  for (const pid of before) process.kill(pid, 'SIGKILL');
  await vi.waitFor(() => expect(running.text().match(/ was restarted /g)).toHaveLength(before.length), 60_000);
  expect(pids().filter((pid) => before.includes(pid))).toEqual([]);
  expect(pids().every(isRunning)).toBe(true);
  running.child.kill('SIGINT');
  expect(await running.ended).toBe(0);
});

test('a second start in the same folder, or on a taken port, ends with one sentence that says what to do', {
  tags: ['slow'],
}, async () => {
  const first = launch();
  await ready(first);
  const second = launch();
  expect(await second.ended).toBe(1);
  expect(second.text()).toMatch(/is in use by process \d+: stop that process, or set DATA_DIR to another folder\.\n$/);
  const used = folder;
  folder = mkdtempSync(join(tmpdir(), 'signpost-launcher-'));
  const third = launch();
  expect(await third.ended).toBe(1);
  expect(third.text()).toContain(`port ${ports[0]} of 127.0.0.1 is in use`);
  expect(third.text()).toContain('set API_PORT to another port');
  rmSync(folder, { recursive: true, force: true });
  folder = used;
});

test.runIf(process.getuid?.() === 0)(
  'a start in a folder of another user ends with one sentence, and changes nothing there',
  async () => {
    chownSync(folder, 65_534, 65_534);
    const started = launch();
    expect(await started.ended).toBe(1);
    expect(started.text()).toContain(`${folder} belongs to another user (uid 65534)`);
    expect(readdirSync(folder)).toEqual([]);
  },
);

test('a stop in the middle of starting leaves nothing behind', { tags: ['slow'] }, async () => {
  const starting = launch();
  await vi.waitFor(() => expect(starting.text()).toContain('nats is up'), { timeout: 60_000, interval: 5 });
  starting.child.kill('SIGTERM');
  expect(await starting.ended).toBe(0);
  expect(existsSync(join(folder, 'lock'))).toBe(false);
  expect(pids()).toEqual([]);
});

test('a machine that boots before its Postgres and its Redis answers visitors, says what it waits for, and starts the rest once Postgres answers', {
  tags: ['slow'],
  timeout: 400_000,
}, async () => {
  const place = { dataDir: join(folder, 'external'), port: await freePort() };
  const before = await startPostgres(place);
  await before.stop();
  const running = launch([`DATABASE_URL=${before.url}`, `REDIS_URL=redis://127.0.0.1:${await freePort()}`]);
  await vi.waitFor(() => expect(running.text()).toContain('Redirectors serve the links that they know'), 120_000);
  expect(running.text()).toMatch(/DATABASE_URL: Postgres cannot be reached at/);
  expect(running.text()).toMatch(/REDIS_URL: Redis cannot be reached at/);
  expect((await fetch(`http://127.0.0.1:${ports[1]}/abc`, { redirect: 'manual' })).status).toBeGreaterThanOrEqual(400);
  expect(running.text()).not.toMatch(/^ready$/m);
  const after = await startPostgres(place);
  try {
    await ready(running);
    const listed: { name: string }[] = JSON.parse(readFileSync(join(folder, 'processes.json'), 'utf8'));
    const names = ['redirector-0', 'ingest', 'publisher', 'origin', 'webhooks'];
    expect(listed.map(({ name }) => name)).toEqual(expect.arrayContaining(names));
    running.child.kill('SIGTERM');
    expect(await running.ended).toBe(0);
  } finally {
    await after.stop();
  }
});
