/** Where `npm start` keeps what an administrator of the same machine needs. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
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

/** The SECRET_KEY that `npm start` made; empty if it made none. */
export function localSecretKey(dataDir: string): string {
  return textOf(join(dataDir, 'secret-key'));
}

function textOf(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
}
