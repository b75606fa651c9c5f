/** The addresses and secrets of `npm start`'s servers, for an administrator on the same machine. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The Postgres that `npm start` runs on this machine, if it runs now; empty otherwise. */
export function localDatabaseUrl(dataDir: string): string {
  const password = textOf(join(dataDir, 'postgres', 'password'));
  // The fourth line of a running server's lock file is its port (PostgreSQL documentation, postmaster.pid).
  const port = textOf(join(dataDir, 'postgres', 'cluster', 'postmaster.pid'))
    .split('\n')[3]
    ?.trim();
  return password !== '' && port ? `postgres://signpost:${password}@127.0.0.1:${port}/postgres` : '';
}

/** The ClickHouse that `npm start` runs on this machine, if it runs now; empty otherwise. Its arguments end with its port. */
export function localClickHouseUrl(dataDir: string): string {
  const pid = /"name":\s*"clickhouse",\s*"pid":\s*(\d+)/.exec(textOf(join(dataDir, 'processes.json')))?.[1];
  if (pid === undefined) return '';
  const listed = spawnSync('ps', ['-o', 'args=', '-p', pid], { encoding: 'utf8' }).stdout ?? '';
  const port = /\s(\d+)\s*$/.exec(listed)?.[1];
  const password = textOf(join(dataDir, 'clickhouse', 'password-signpost'));
  return port === undefined ? '' : `http://signpost:${password}@127.0.0.1:${port}`;
}

/** The NATS that `npm start` runs on this machine, as the user that may purge the log; empty if it never ran. */
export function localNatsUrl(dataDir: string): string {
  const folder = join(dataDir, 'nats');
  const address = /^listen: "([\d.]+:\d+)"/m.exec(textOf(join(folder, 'nats.conf')))?.[1];
  const password = textOf(join(folder, 'password-operator'));
  if (address === undefined) return '';
  return `nats://${password === '' ? '' : `operator:${password}@`}${address}`;
}

/** The Redis that `npm start` runs on this machine, if it runs now; empty otherwise. */
export function localRedisUrl(dataDir: string): string {
  const folder = join(dataDir, 'redis');
  const pid = /"name":\s*"redis",\s*"pid":\s*(\d+)/.exec(textOf(join(dataDir, 'processes.json')))?.[1];
  if (pid === undefined) return '';
  const listed = spawnSync('ps', ['-o', 'args=', '-p', pid], { encoding: 'utf8' }).stdout ?? '';
  const port =
    /^port (\d+)/m.exec(textOf(join(folder, 'redis.conf')))?.[1] ??
    /(?:--port |:|redis-stand-in\.[jt]s )(\d+)/.exec(listed)?.[1];
  const password = textOf(join(folder, 'password-operator'));
  if (port === undefined) return '';
  // The stand-in has a single user.
  const user = textOf(join(folder, 'redis.conf')) === '' ? 'default' : 'operator';
  return `redis://${password === '' ? '' : `${user}:${password}@`}127.0.0.1:${port}`;
}

/** The SECRET_KEY that `npm start` generated; empty if it generated none. */
export function localSecretKey(dataDir: string): string {
  return textOf(join(dataDir, 'secret-key'));
}

/** Empty if there is no such file. @throws if this user may not read it, which must not look like a server that does not run. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
    throw error;
  }
}
