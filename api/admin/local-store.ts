/** The addresses and secrets of `npm start`'s servers, for an administrator on the same machine. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

/** The Postgres that `npm start` runs on this machine, if it runs now; empty otherwise. */
export function localDatabaseUrl(dataDir: string): string {
  const path = socketOf(dataDir, 'postgres');
  const password = textOf(join(dataDir, 'postgres', 'password'));
  if (path === '' || password === '') return '';
  return `postgres://signpost:${password}@localhost:5432/postgres?host=${encodeURIComponent(dirname(path))}`;
}

/** The ClickHouse that `npm start` runs on this machine, if it runs now; empty otherwise. */
export function localClickHouseUrl(dataDir: string): string {
  const path = socketOf(dataDir, 'clickhouse');
  const password = textOf(join(dataDir, 'clickhouse', 'password-signpost'));
  return path === '' ? '' : `http://signpost:${password}@localhost/?socket=${encodeURIComponent(path)}`;
}

/** The NATS that `npm start` runs on this machine, as the user that may purge the log; empty if it never ran. */
export function localNatsUrl(dataDir: string): string {
  const folder = join(dataDir, 'nats');
  const address = /^listen: "([\d.]+:\d+)"/m.exec(textOf(join(folder, 'nats.conf')))?.[1];
  const password = textOf(join(folder, 'password-operator'));
  if (address === undefined) return '';
  return `tls://operator:${password}@${address}?ca=${encodeURIComponent(join(resolve(folder), 'tls', 'cert.pem'))}`;
}

/** The Redis that `npm start` runs on this machine, if it runs now; empty otherwise. */
export function localRedisUrl(dataDir: string): string {
  const folder = join(dataDir, 'redis');
  const path = socketOf(dataDir, 'redis');
  if (path === '') return '';
  // The stand-in has no such file, and a single user.
  const user = existsSync(join(folder, 'redis.conf')) ? 'operator' : 'default';
  return `redis://${user}:${textOf(join(folder, 'password-operator'))}@localhost?path=${encodeURIComponent(path)}`;
}

/** The Unix socket of a server; empty if there is none, because the server has ended or never ran. */
function socketOf(dataDir: string, server: string): string {
  const path = textOf(join(dataDir, server, 'socket-path'));
  return path !== '' && existsSync(path) ? path : '';
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
