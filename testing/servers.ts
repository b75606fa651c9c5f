/**
 * Real servers for tests. Postgres and ClickHouse are shared by a whole run, with a database for each caller; NATS and
 * Redis start in milliseconds, so each caller has its own. All use temporary folders and free ports: a running
 * installation on the same machine is never touched.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { Postgres, PostgresUnavailable } from '#common/stores/postgres.ts';
import { sleep, systemTime } from '#common/time.ts';
import { childrenOf, isAlive } from '#deploy/local/ancestry.ts';
import { builtClickHouse, startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { startNats } from '#deploy/local/nats.ts';
import { startPostgres } from '#deploy/local/postgres.ts';
import { startRedis } from '#deploy/local/redis.ts';
import type { ProcessRoleName } from '#pg-migrations/role-rights.ts';
import { createSchema } from './clickhouse-schema.ts';
import { urlAsRole } from './roles.ts';

export interface TestDatabase {
  readonly url: string;
  readonly database: string;
  /** Drops it. For Postgres it fails if a connection is still open, because then a pool was leaked. */
  stop(): Promise<void>;
}

export interface TestServer {
  readonly url: string;
  readonly port: number;
  readonly pid: () => number;
  readonly dataDir: string;
  kill(signal: NodeJS.Signals): Promise<void>;
  /** Starts it again on the same port and folder; `isWiped` empties the folder first. The server must have ended. */
  restart(options?: { isWiped?: boolean }): Promise<void>;
  /** Starts it again if it has ended. */
  revive(): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

function databaseName(): string {
  return `test_${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
}

export interface TestPostgres extends TestDatabase {
  /** The same database for a process, with only the rights of its role. */
  urlAs(role: ProcessRoleName): string;
}

/** A fresh, migrated Postgres database. Its `url` is the owner's. */
export async function postgresForTest(options: { isMigrated?: boolean } = {}): Promise<TestPostgres> {
  const shared = inject('postgresUrl');
  const database = databaseName();
  const admin = async (work: (postgres: Postgres) => Promise<void>) => {
    // Creating and dropping a database each wait for a checkpoint.
    const postgres = new Postgres({ url: shared, name: 'test-admin', connectionsMax: 1, statementTimeoutMs: 60_000 });
    try {
      await connect(postgres);
      await work(postgres);
    } finally {
      await postgres.close();
    }
  };
  const template = options.isMigrated === false ? 'template1' : inject('postgresTemplate');
  // The default strategy copies a template through the write-ahead log, which takes twice the CPU time.
  const made = `CREATE DATABASE ${database} TEMPLATE ${template} STRATEGY file_copy`;
  await admin(async (postgres) => void (await postgres.execute(made)));
  const url = new URL(shared);
  url.pathname = `/${database}`;
  return {
    url: url.href,
    urlAs: (role) => urlAsRole(url.href, role),
    database,
    stop: () => admin((postgres) => dropDatabase(postgres, database)),
  };
}

/** A new, migrated ClickHouse database in the server that the run shares. */
export async function clickhouseForTest(options: { isMigrated?: boolean } = {}): Promise<TestDatabase> {
  const database = databaseName();
  const url = new URL(inject('clickhouseUrl'));
  url.pathname = `/${database}`;
  const withClient = async (work: (clickhouse: ClickHouse) => Promise<unknown>) => {
    const clickhouse = new ClickHouse({ url: url.href, connectionsMax: 1 });
    try {
      await work(clickhouse);
    } finally {
      await clickhouse.close();
    }
  };
  await withClient((clickhouse) =>
    options.isMigrated === false ? clickhouse.createDatabase('') : migrateForTest(clickhouse),
  );
  return {
    url: url.href,
    database,
    stop: () => withClient((clickhouse) => clickhouse.command(`DROP DATABASE IF EXISTS ${database}`)),
  };
}

let sharedClickhouse: Promise<TestDatabase> | undefined;

/**
 * A migrated ClickHouse database for all files of this worker whose records belong to organizations of their own: making
 * one takes longer than most of their tests. It goes with the server.
 */
export function sharedClickhouseForTest(): Promise<TestDatabase> {
  sharedClickhouse ??= clickhouseForTest();
  return sharedClickhouse;
}

const connectedWithinMs = 60_000;

/** A connection has three seconds to open, which are too few on a machine with much other work. */
async function connect(postgres: Postgres): Promise<void> {
  for (const deadline = Date.now() + connectedWithinMs; ; await sleep(systemTime, 100)) {
    try {
      await postgres.execute('SELECT');
      return;
    } catch (error) {
      if (!(error instanceof PostgresUnavailable) || Date.now() > deadline) throw error;
    }
  }
}

/** A closed connection leaves the list of sessions a moment after the client is gone. */
const leakGraceMs = 2_000;

async function dropDatabase(postgres: Postgres, database: string): Promise<void> {
  const deadline = Date.now() + leakGraceMs;
  let leaked: { application_name: string }[];
  do {
    // The server's own vacuum is listed too.
    leaked = await postgres.query(
      "SELECT application_name FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'",
      [database],
    );
  } while (leaked.length > 0 && Date.now() < deadline);
  await postgres.execute(`DROP DATABASE ${database} WITH (FORCE)`);
  if (leaked.length > 0) {
    const names = leaked.map((session) => session.application_name).join(', ');
    throw new Error(`${leaked.length} Postgres connections were left open: ${names}`);
  }
}

/**
 * Kills a server with all of its processes, like a machine that loses power. The process of a Postgres session outlives
 * the main process for a moment, and may still answer or commit in it.
 */
async function killWhole(server: LocalServer): Promise<void> {
  // A stopped server starts no other processes while they are listed.
  server.kill('SIGSTOP');
  const pids = childrenOf(server.pid);
  server.kill('SIGKILL');
  for (const pid of pids) killIfThere(pid);
  await server.exited;
  while (pids.some(isAlive)) await sleep(systemTime, 2);
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has already ended.
  }
}

async function serverForTest(start: (dataDir: string, port: number) => Promise<LocalServer>): Promise<TestServer> {
  const dataDir = mkdtempSync(join(tmpdir(), 'signpost-test-'));
  const clean = () => rmSync(dataDir, { recursive: true, force: true });
  const wipe = () => {
    // Its passwords stay, because its clients know them.
    const stored = readdirSync(dataDir).filter((name) => !name.startsWith('password'));
    for (const name of stored) rmSync(join(dataDir, name), { recursive: true, force: true });
  };
  let server = await start(dataDir, 0);
  return {
    url: server.url,
    port: server.port,
    pid: () => server.pid,
    dataDir,
    kill: async (signal) => {
      if (signal === 'SIGKILL') return await killWhole(server);
      server.kill(signal);
      if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') await server.exited;
    },
    revive: async () => {
      if (server.hasExited()) server = await start(dataDir, server.port);
    },
    restart: async (options) => {
      if (!server.hasExited()) await server.stop();
      if (options?.isWiped === true) wipe();
      server = await start(dataDir, server.port);
    },
    stop: async () => {
      if (!server.hasExited()) server.kill('SIGCONT');
      await server.stop();
      clean();
    },
  };
}

export function natsForTest(): Promise<TestServer> {
  return serverForTest((dataDir, port) => startNats({ dataDir, port }));
}

export function redisForTest(): Promise<TestServer> {
  return serverForTest((dataDir, port) => startRedis({ dataDir, port }));
}

/** A separate Postgres, for tests that kill it. Not migrated. */
export function ownPostgresForTest(): Promise<TestServer> {
  return serverForTest((dataDir, port) => startPostgres({ dataDir, port, isDurable: false }));
}

/** A separate ClickHouse, for tests that kill it. Without tables: see `migrateForTest`. */
export function ownClickhouseForTest(): Promise<TestServer> {
  return serverForTest((dataDir, port) => startClickHouse({ dataDir, port, entry: builtClickHouse() }));
}

/** Creates the client's database as all migrations would leave it, in less time. */
export function migrateForTest(clickhouse: ClickHouse): Promise<void> {
  return createSchema(clickhouse, inject('clickhouseSchema'));
}
