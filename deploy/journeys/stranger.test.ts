/**
 * What a running `npm start` lets others read, write or reach: another Unix user of the same machine, and a machine on
 * the network. Public by design are the ports of the API and of short links; local users can read the figures in
 * /metrics.
 */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultInstallation } from '#common/log/log-names.ts';
import { type ProcessRole, settingsOfRole } from '#common/process/config-roles.ts';
import { settings } from '#common/process/settings.ts';
import { Nats } from '#common/stores/nats.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { processRoles } from '#pg-migrations/role-rights.ts';
import { argumentsOf, descendantsOf, environmentOf, type Listener, listenersOf, ofDescendants } from './machine.ts';
import { login, Stack } from './stack.ts';

let stack: Stack;
let pids: number[];
let listeners: Listener[];
const stranger = { uid: 65_534, gid: 65_534 };
const isRoot = process.getuid?.() === 0;

beforeAll(async () => {
  stack = await Stack.start({ OAUTH_GITHUB_CLIENT_SECRET: 'hush', OAUTH_GITHUB_CLIENT_ID: '' });
  const call = await stack.loggedIn();
  await call('/apps', { method: 'POST', body: { name: 'Tour', fallback_url: 'https://example.com/' } });
  pids = descendantsOf(stack.launcherPid);
  listeners = listenersOf([stack.launcherPid, ...pids]);
});

afterAll(() => stack.stop());

const nameOf = (pid: number) => stack.parts.find((part) => part.pid === pid)?.name ?? `process ${pid}`;

function firstBytes(at: { port: number } | { path: string }, send: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', ...at, timeout: 3_000 }, () => socket.write(send, 'latin1'));
    socket.on('data', (bytes) => {
      resolve(bytes.toString('latin1'));
      socket.destroy();
    });
    for (const end of ['close', 'timeout', 'error'] as const) socket.on(end, () => resolve(''));
  });
}

test('every port is bound to 127.0.0.1, and every other socket is in the closed folder', () => {
  expect(listeners.length).toBeGreaterThanOrEqual(10);
  const isInside = ({ address }: Listener) => address.startsWith(`${stack.dataDir}/`);
  expect(listeners.filter((one) => one.address !== '127.0.0.1' && !isInside(one))).toEqual([]);
});

test('every port that is not public by design rejects clients without a password', async () => {
  const checked: Record<string, number> = {};
  for (const { pid, port } of listeners.filter((one) => one.port > 0)) {
    const name = nameOf(pid);
    checked[name] = (checked[name] ?? 0) + 1;
    if (name === 'nats') {
      const ca = encodeURIComponent(join(stack.dataDir, 'nats', 'tls', 'cert.pem'));
      const url = `tls://127.0.0.1:${port}?ca=${ca}`;
      await expect(
        Nats.connect({ url, name: 'stranger', installation: defaultInstallation, waitsForServer: false }),
      ).rejects.toThrow(/AUTH/i);
    } else {
      expect(['ingest', 'publisher', 'origin', 'redirector-0', 'webhooks']).toContain(name);
    }
  }
  // The other servers have no port. Our processes have their public ports and their metrics port.
  expect(checked).toEqual({
    nats: 1,
    ...{ ingest: 1, publisher: 1, origin: 2, 'redirector-0': expect.any(Number), webhooks: 1 },
  });
});

test('Postgres, Redis and the engine listen only on sockets in the closed folder, and require a password there too', async () => {
  const [postgres, redis, clickhouse] = [
    'postgres/socket/.s.PGSQL.5432',
    'redis/socket/redis.sock',
    'clickhouse/socket/http.sock',
  ];
  for (const path of [postgres, redis, clickhouse])
    expect(listeners.map(({ address }) => address)).toContain(join(stack.dataDir, path ?? ''));
  const folder = encodeURIComponent(join(stack.dataDir, 'postgres', 'socket'));
  for (const login of ['postgres', 'signpost', 'signpost:x', 'signpost_api', ...processRoles]) {
    const db = new Postgres({ url: `postgres://${login}@localhost:5432/postgres?host=${folder}`, name: 'stranger' });
    await expect(db.query('SELECT 1')).rejects.toThrow(/password|authentication|SASL|role/i);
    await db.close();
  }
  const at = (path = '') => ({ path: join(stack.dataDir, path) });
  expect(await firstBytes(at(redis), 'GET link:2:x\r\n')).toMatch(/^-NOAUTH/);
  for (const path of ['/ping', '/?query=SELECT%201']) {
    const answer = await firstBytes(at(clickhouse), `GET ${path} HTTP/1.0\r\nHost: localhost\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 403/);
  }
});

test('local users can read only figures in the metrics: no id, no address, no name of a tenant', async () => {
  const listed = stack.parts as unknown as { name: string; metrics_url: string | null }[];
  const urls = listed.flatMap(({ metrics_url }) => metrics_url ?? []);
  expect(urls).toHaveLength(5);
  for (const url of urls) {
    const { port } = new URL(url);
    const text = await firstBytes({ port: Number(port) }, 'GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n');
    expect(text).toContain(' 200 ');
    expect(text).not.toMatch(/\b(org|usr|app|lnk)_[0-9a-z]|lk_|@|\.localhost|hush|Tour/);
  }
});

function filesBelow(folder: string): string[] {
  const below = readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesBelow(join(folder, entry.name)) : [join(folder, entry.name)],
  );
  return [folder, ...below];
}

const probe = `
const fs = require('node:fs');
const { paths, pids } = JSON.parse(fs.readFileSync(0, 'utf8'));
const works = (work) => { try { work(); return true } catch { return false } };
const found = { tried: 0, readable: [], writable: [], environments: [], killable: [] };
for (const path of paths) {
  found.tried++;
  if (works(() => fs.readdirSync(path)) || works(() => fs.closeSync(fs.openSync(path, 'r')))) found.readable.push(path);
  if (works(() => fs.closeSync(fs.openSync(path, 'r+'))) || works(() => fs.writeFileSync(path + '/x', ''))) found.writable.push(path);
}
for (const pid of pids) {
  for (const file of ['environ', 'mem', 'maps']) if (works(() => fs.readFileSync('/proc/' + pid + '/' + file))) found.environments.push(pid + ' ' + file);
  if (works(() => fs.readdirSync('/proc/' + pid + '/fd')) || works(() => fs.readdirSync('/proc/' + pid + '/cwd/'))) found.environments.push(pid + ' fd');
  if (works(() => process.kill(pid, 0))) found.killable.push(pid);
}
const { connect } = require('node:net');
const sockets = paths.map((path) => new Promise((done) => {
  const socket = connect({ path }, () => { found.readable.push(path); socket.destroy(); done() });
  socket.on('error', () => done());
}));
Promise.all(sockets).then(() => console.log(JSON.stringify(found)));`;

test.runIf(isRoot)('another user of the machine can read and write no file, and inspect no process', () => {
  const open = join(stack.dataDir, '..', `signpost-open-${process.pid}`);
  writeFileSync(open, 'x', { mode: 0o666 });
  const paths = filesBelow(stack.dataDir);
  expect(paths.length).toBeGreaterThan(100);
  // Node may be in a place that only we can access.
  const programs = mkdtempSync(join(tmpdir(), 'signpost-open-'));
  chmodSync(programs, 0o755);
  const node = join(programs, 'node');
  copyFileSync(process.execPath, node);
  const ask = (asked: string[]) => {
    const input = JSON.stringify({ paths: asked, pids: [stack.launcherPid, ...pids] });
    const { stdout, stderr } = spawnSync(node, ['-e', probe], {
      input,
      encoding: 'utf8',
      cwd: '/',
      ...stranger,
    });
    return JSON.parse(stdout || `{"failed":${JSON.stringify(stderr)}}`) as Record<string, unknown>;
  };
  const nothing = { readable: [], writable: [], environments: [], killable: [] };
  // Proves that the probe works: it must find what is open.
  expect(ask([open])).toMatchObject({ readable: [open] });
  expect(ask(paths)).toEqual({ ...nothing, tried: paths.length });
  execFileSync('rm', ['-r', open, programs]);
});

test('no password and no secret is in the arguments of a process', () => {
  const passwords = filesBelow(stack.dataDir)
    .filter((path) => /\/password[\w-]*$|secret-key$/.test(path))
    .map((path) => execFileSync('cat', [path], { encoding: 'utf8' }).trim());
  expect(passwords.length).toBeGreaterThanOrEqual(14);
  const all = [argumentsOf(stack.launcherPid), ...ofDescendants(stack.launcherPid, argumentsOf)];
  expect(all.length).toBeGreaterThan(8);
  for (const args of all) expect(passwords.filter((password) => args.includes(password))).toEqual([]);
});

test('created files and folders are accessible only to their owner, whatever folder they are in', () => {
  const open = filesBelow(stack.dataDir).filter((path) => existsSync(path) && (statSync(path).mode & 0o077) !== 0);
  expect(open).toEqual([]);
});

const roles: Record<string, ProcessRole> = {
  ...{ ingest: 'ingest', publisher: 'publisher', origin: 'origin', 'redirector-0': 'redirector', webhooks: 'webhooks' },
};

test('a process gets the settings that it reads and no others; none gets the password of the first user', () => {
  const all = new Set(Object.keys(settings));
  const given: Record<string, string[]> = {};
  const read = (pid: number) => ({ name: nameOf(pid), environment: environmentOf(pid) });
  for (const { name, environment } of ofDescendants(stack.launcherPid, read)) {
    expect([...environment.values()].filter((value) => value.includes(login.password))).toEqual([]);
    given[name] = [...environment.keys()].filter((setting) => all.has(setting));
  }
  for (const [name, role] of Object.entries(roles)) {
    const allowed: readonly string[] = settingsOfRole[role];
    expect(given[name]?.filter((setting) => !allowed.includes(setting))).toEqual([]);
    delete given[name];
  }
  // Servers, guards and their like get none at all.
  expect(Object.values(given).flat()).toEqual([]);
});

test('no process uses the owner of the database, and each has its own database user', () => {
  const own = {
    ...{ origin: ['API_DATABASE_URL', 'GATEWAY_DATABASE_URL'], ingest: ['INGEST_DATABASE_URL'], publisher: [] },
    'redirector-0': ['EDGE_DATABASE_URL'],
    webhooks: ['WEBHOOKS_DATABASE_URL'],
  };
  const users = Object.entries(own).map(([name, wanted]) => {
    const given = [...environmentOf(stack.pidOf(name))].filter(([setting]) => setting.endsWith('DATABASE_URL'));
    expect(given.map(([setting]) => setting).sort()).toEqual(wanted);
    return given.map(([, url]) => new URL(url).username).sort();
  });
  expect(users.flat().sort()).toEqual([...processRoles]);
});

test('an edge has no secret', () => {
  const redirector = environmentOf(stack.pidOf('redirector-0'));
  for (const secret of ['SECRET_KEY', 'CLICKHOUSE_URL', 'NATS_URL']) expect(redirector.has(secret)).toBe(false);
  expect(new URL(environmentOf(stack.pidOf('origin')).get('CLICKHOUSE_URL') ?? '').username).toBe('reader');
});

test('a password that was given is not written to a file', () => {
  expect(existsSync(join(stack.dataDir, 'login.json'))).toBe(false);
  const grep = spawnSync('grep', ['-rlF', login.password, stack.dataDir], { encoding: 'utf8' });
  expect(grep.stdout).toBe('');
});

const ip = (...args: string[]) => spawnSync('ip', args, { encoding: 'utf8' });

/**
 * Two machines on one wire: this one, and a network namespace. Null, with the reason printed, if that can't be created.
 */
function secondMachine(): { address: string; name: string } | null {
  const name = `signpost${process.pid}`;
  const [near, far] = [`sp${process.pid}a`.slice(-15), `sp${process.pid}b`.slice(-15)];
  const net = `10.213.${process.pid % 256}`;
  const steps = [
    ['netns', 'add', name],
    ['link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', name],
    ['addr', 'add', `${net}.1/30`, 'dev', near],
    ['link', 'set', near, 'up'],
    ['-n', name, 'addr', 'add', `${net}.2/30`, 'dev', far],
    ['-n', name, 'link', 'set', far, 'up'],
  ];
  for (const step of steps) {
    const { status, stderr, error } = ip(...step);
    if (status === 0) continue;
    console.warn(`cannot create a second machine: ip ${step.join(' ')}: ${error?.message ?? stderr.trim()}`);
    ip('netns', 'delete', name);
    return null;
  }
  return { address: `${net}.1`, name };
}

const reach = `
const { connect } = require('node:net');
const [address, ...ports] = process.argv.slice(1);
const tried = ports.map((port) => new Promise((done) => {
  const socket = connect({ host: address, port: Number(port), timeout: 2000 }, () => { socket.destroy(); done(Number(port)) });
  for (const end of ['error', 'timeout']) socket.on(end, () => { socket.destroy(); done(0) });
}));
Promise.all(tried).then((found) => console.log(JSON.stringify(found.filter(Boolean))));`;

// Needs root and iproute2.
test.runIf(isRoot)('a machine on the network reaches no port at all', async () => {
  const other = secondMachine();
  if (other === null) return;
  const control = createServer((socket) => socket.destroy());
  await new Promise<void>((done) => control.listen(0, '0.0.0.0', done));
  const address = control.address();
  const openPort = typeof address === 'object' && address !== null ? address.port : 0;
  try {
    const ports = [openPort, ...listeners.flatMap(({ port }) => (port > 0 ? [port] : []))].map(String);
    const args = ['netns', 'exec', other.name, process.execPath, '-e', reach, other.address, ...ports];
    const child = await new Promise<string>((done) => {
      execFile('ip', args, (_error, stdout) => done(stdout));
    });
    // The control port is reached, so the wire works; nothing else is.
    expect(JSON.parse(child)).toEqual([openPort]);
  } finally {
    control.close();
    ip('netns', 'delete', other.name);
  }
});

test('a folder of an earlier version, open to all and without passwords, is closed and continues to work', {
  tags: ['slow'],
}, async () => {
  await stack.interrupt();
  for (const path of filesBelow(stack.dataDir)) {
    if (/\/(password-|nats\.conf|redis\.conf)/.test(path)) execFileSync('rm', [path]);
  }
  const opened = [stack.dataDir, join(stack.dataDir, 'nats'), join(stack.dataDir, 'clickhouse')];
  execFileSync('chmod', ['755', ...opened]);
  execFileSync('chmod', ['644', join(stack.dataDir, 'secret-key')]);
  mkdirSync(join(stack.dataDir, 'old'), { mode: 0o755 });
  await stack.launch();
  for (const folder of opened) expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(statSync(join(stack.dataDir, 'secret-key')).mode & 0o777).toBe(0o600);
  const call = await stack.loggedIn();
  expect((await call('/apps')).json<{ data?: unknown[]; items?: unknown[] }>()).toMatchObject({});
});

test('with a secret other than the one its keys were encrypted with, nothing starts, and one sentence says why', {
  tags: ['slow'],
}, async () => {
  await stack.interrupt();
  const kept = execFileSync('cat', [join(stack.dataDir, 'secret-key')], { encoding: 'utf8' });
  execFileSync('rm', [join(stack.dataDir, 'secret-key')]);
  await expect(stack.launch()).rejects.toThrow(
    /The API keys of 1 app \(app_\w+\) and other secrets can't be decrypted with \S+secret-key: /,
  );
  writeFileSync(join(stack.dataDir, 'secret-key'), kept);
  await stack.launch();
});
