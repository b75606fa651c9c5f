import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { listenersOf } from '#deploy/journeys/machine.ts';
import { childrenOf, isAlive, isZombie } from './ancestry.ts';
import { builtClickHouse, startClickHouse } from './clickhouse/spawn.ts';
import { type LocalServer, startNats, startPostgres, startRedis } from './servers.ts';

let folder = '';
const running: LocalServer[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-servers-'));
});

afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.stop()));
  rmSync(folder, { recursive: true, force: true });
});

const starts = [
  ['postgres', (port: number) => startPostgres({ dataDir: join(folder, 'postgres'), port, isDurable: false })],
  ['nats', (port: number) => startNats({ dataDir: join(folder, 'nats'), port })],
  ['redis', (port: number) => startRedis({ dataDir: join(folder, 'redis'), port })],
] as const;

test.each(starts)('%s starts, survives kill -9, and starts again on the same port and folder', async (_name, start) => {
  const first = await start(0);
  running.push(first);
  first.kill('SIGKILL');
  expect((await first.exited).signal).toBe('SIGKILL');
  const second = await start(first.port);
  running.push(second);
  expect(second.url).toBe(first.url);
  expect(second.pid).not.toBe(first.pid);
});

const onSockets = [
  ['postgres', () => startPostgres({ dataDir: join(folder, 'postgres'), isDurable: false }), askPostgres],
  ['redis', () => startRedis({ dataDir: join(folder, 'redis') }), askRedis],
  [
    'clickhouse',
    () => startClickHouse({ dataDir: join(folder, 'clickhouse'), entry: builtClickHouse() }),
    askClickHouse,
  ],
] as const;

async function askPostgres(url: string): Promise<unknown> {
  const db = new Postgres({ url, name: 'test' });
  try {
    return await db.query('SELECT 1 AS one');
  } finally {
    await db.close();
  }
}
async function askRedis(url: string): Promise<unknown> {
  const redis = new Redis({ url, name: 'test' });
  await redis.connect();
  try {
    return await redis.commands.ping();
  } finally {
    await redis.close();
  }
}
async function askClickHouse(url: string): Promise<unknown> {
  const clickhouse = new ClickHouse({ url });
  try {
    return await clickhouse.query('SELECT 1 AS one');
  } finally {
    await clickhouse.close();
  }
}

test.each(onSockets)(
  '%s without a port listens on a socket that only its user reaches, also after kill -9',
  async (name, start, ask) => {
    const first = await start();
    running.push(first);
    const listeners = listenersOf([first.pid, ...childrenOf(first.pid)]);
    expect(listeners.map(({ address, port }) => [dirname(address), port])).toEqual([[join(folder, name, 'socket'), 0]]);
    expect(statSync(join(folder, name, 'socket')).mode & 0o077).toBe(0);
    expect(await ask(first.url)).toEqual(name === 'redis' ? 'PONG' : [{ one: 1 }]);
    first.kill('SIGKILL');
    await first.exited;
    const second = await start();
    running.push(second);
    expect(second.url).toBe(first.url);
    expect(await ask(second.url)).toEqual(name === 'redis' ? 'PONG' : [{ one: 1 }]);
  },
);

test('with a folder whose path is too long, a server keeps its socket elsewhere through kill -9, and removes its folder at the end', async () => {
  const start = () => startRedis({ dataDir: join(folder, 'x'.repeat(110), 'redis') });
  const first = await start();
  running.push(first);
  const socketFolder = dirname(new URL(first.url).searchParams.get('path') ?? '');
  expect([socketFolder.startsWith(folder), statSync(socketFolder).mode & 0o777]).toEqual([false, 0o700]);
  first.kill('SIGKILL');
  await first.exited;
  await first.stop();
  const second = await start();
  running.push(second);
  expect(second.url).toBe(first.url);
  expect(await askRedis(second.url)).toBe('PONG');
  await second.stop();
  expect(existsSync(socketFolder)).toBe(false);
});

test('postgres ends with all its processes although one of them hangs, and starts again', {
  tags: ['slow'],
}, async () => {
  const [, start] = starts[0];
  const first = await start(0);
  const processes = childrenOf(first.pid);
  const hanging = processes.find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('checkpointer'));
  expect(hanging).toBeDefined();
  process.kill(Number(hanging), 'SIGSTOP');
  await first.stop();
  expect(processes.filter(isAlive)).toEqual([]);
  running.push(await start(first.port));
});

test('postgres starts although the process of its lock file is a zombie', { tags: ['slow'] }, async () => {
  const [, start] = starts[0];
  await (await start(0)).stop();
  // Its parent becomes a program that never collects its exit status; the shell before it would. `cat` must have an output,
  // or it ends at once, while the shell can still collect it.
  const script = 'cat <&3 >/dev/null & echo $!; exec sleep 600 3<&-';
  const parent = spawn('/bin/sh', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore', 'pipe'] });
  const { stdout } = parent;
  if (stdout === null) throw new Error('the shell has no output');
  const [line] = (await once(stdout, 'data')) as [Buffer];
  const pid = Number(line.toString());
  await expect.poll(() => readFileSync(`/proc/${parent.pid}/comm`, 'utf8')).toBe('sleep\n');
  parent.stdio[3]?.destroy();
  await expect.poll(() => isAlive(pid)).toBe(false);
  expect(isZombie(pid)).toBe(true);
  writeFileSync(join(folder, 'postgres', 'cluster', 'postmaster.pid'), `${pid}\n`);
  running.push(await start(0));
  parent.kill();
});

test.each(starts)('%s says which port is in use', async (_name, start) => {
  const squatter = createServer();
  await new Promise<void>((resolve) => squatter.listen(0, '127.0.0.1', resolve));
  const address = squatter.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  await expect(start(port)).rejects.toThrow(`port ${port} of 127.0.0.1 is in use`);
  await new Promise((resolve) => squatter.close(resolve));
});

test.runIf(process.getuid?.() === 0)(
  'postgres starts as root from a folder that only root can enter',
  { tags: ['slow'] },
  async () => {
    chmodSync(folder, 0o700);
    const closed = join(folder, 'closed');
    mkdirSync(closed, { mode: 0o700 });
    const server = await startPostgres({ dataDir: join(closed, 'postgres'), isDurable: false });
    running.push(server);
    expect(server.hasExited()).toBe(false);
  },
);
