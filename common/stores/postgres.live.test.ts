import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ownPostgresForTest, postgresForTest, type TestDatabase } from '#testing/servers.ts';
import { Postgres, PostgresUnavailable, violatedConstraint, writableUrl } from './postgres.ts';

let database: TestDatabase;
let postgres: Postgres;

beforeAll(async () => {
  database = await postgresForTest({ isMigrated: false });
  postgres = new Postgres({ url: database.url, name: 'test' });
  await postgres.execute('CREATE TABLE things (id bigint PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT now())');
});

afterAll(async () => {
  await postgres.close();
  await database.stop();
});

test('a bigint is a number, a timestamp a Date, a date text; a bigint beyond 2^53 is refused, not rounded', async () => {
  const rows = await postgres.query(
    "SELECT 9007199254740991::bigint AS n, '2026-01-02T03:04:05.678Z'::timestamptz AS t, DATE '2026-01-02' AS d, 1.10 AS m",
  );
  expect(rows).toEqual([
    { n: Number.MAX_SAFE_INTEGER, t: new Date('2026-01-02T03:04:05.678Z'), d: '2026-01-02', m: '1.10' },
  ]);
  await expect(postgres.query('SELECT 9007199254740993::bigint AS n')).rejects.toThrow(RangeError);
});

test('a transaction that throws leaves nothing behind', async () => {
  const work = postgres.transaction(async (queries) => {
    await queries.execute('INSERT INTO things (id) VALUES ($1)', [1]);
    throw new RangeError('changed my mind');
  });
  await expect(work).rejects.toThrow('changed my mind');
  expect(await postgres.query('SELECT id FROM things')).toEqual([]);
  await postgres.transaction((queries) => queries.execute('INSERT INTO things (id) VALUES ($1)', [2]));
  expect(await postgres.query('SELECT id FROM things', [], 'all_things')).toEqual([{ id: 2 }]);
});

test('a query waits for a connection as long as a statement may take, and is rejected immediately if too many are waiting', {
  tags: ['slow'],
}, async () => {
  const narrow = new Postgres({ url: database.url, name: 'narrow', connectionsMax: 1, statementTimeoutMs: 20_000 });
  const slow = narrow.query('SELECT pg_sleep(4)');
  const inLine = Array.from({ length: 1_000 }, (_, n) => narrow.query<{ n: number }>('SELECT $1::int AS n', [n], 'n'));
  await expect(narrow.query('SELECT 1')).rejects.toThrow(/1000 requests are already waiting in line/);
  await slow;
  expect((await Promise.all(inLine)).map(([row]) => row?.n)).toEqual(inLine.map((_, n) => n));
  await narrow.transaction((queries) => queries.query('SELECT 1'));
  await narrow.close();
});

test('a unique violation is identified by its constraint and is not an outage', async () => {
  await postgres.execute('INSERT INTO things (id) VALUES (3)');
  const error = await postgres.execute('INSERT INTO things (id) VALUES (3)').catch((reason: unknown) => reason);
  expect(violatedConstraint(error)).toBe('things_pkey');
  expect(error).not.toBeInstanceOf(PostgresUnavailable);
  await expect(postgres.query('SELEC 1')).rejects.not.toBeInstanceOf(PostgresUnavailable);
});

test('a statement that runs too long is cancelled and counts as unavailable', async () => {
  const hasty = new Postgres({ url: database.url, name: 'hasty', statementTimeoutMs: 50 });
  await expect(hasty.query('SELECT pg_sleep(5)')).rejects.toMatchObject({ name: 'PostgresUnavailable', code: '57014' });
  await hasty.close();
});

test('a killed server is unavailable, even in the middle of a transaction, and the pool works again after a restart', async () => {
  const server = await ownPostgresForTest();
  const errors: unknown[] = [];
  const pool = new Postgres({ url: server.url, name: 'test', onError: (error) => errors.push(error) });
  await Promise.all([pool.query('SELECT 1'), pool.query('SELECT 1')]);
  const cut = pool.transaction(async (queries) => {
    await queries.query('SELECT 1');
    await server.kill('SIGKILL');
    await queries.query('SELECT 1');
  });
  await expect(cut).rejects.toBeInstanceOf(PostgresUnavailable);
  await expect(pool.query('SELECT 1')).rejects.toBeInstanceOf(PostgresUnavailable);
  expect(await pool.isReady()).toBe(false);
  await server.restart();
  await vi.waitFor(async () => expect(await pool.isReady()).toBe(true), 5_000);
  await pool.close();
  await server.stop();
});

test('a test that leaves a connection open fails', async () => {
  const own = await postgresForTest({ isMigrated: false });
  const leaky = new Postgres({ url: own.url, name: 'leaky', onError: () => undefined });
  await leaky.query('SELECT 1');
  await expect(own.stop()).rejects.toThrow('1 Postgres connections were left open: leaky');
  await leaky.close();
});

test('a vacuum by the server itself does not count as an open connection', { tags: ['slow'] }, async () => {
  const own = await postgresForTest({ isMigrated: false });
  const postgres = new Postgres({ url: own.url, name: 'vacuumed' });
  await postgres.execute("ALTER SYSTEM SET autovacuum_naptime = '1s'");
  try {
    await postgres.execute('SELECT pg_reload_conf()');
    await postgres.execute(
      'CREATE TABLE long (n int) WITH (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)',
    );
    await postgres.execute('INSERT INTO long SELECT generate_series(1, 500000)');
    await postgres.execute('DELETE FROM long');
    const vacuums = () => postgres.query("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'autovacuum:%long%'");
    await vi.waitFor(async () => expect(await vacuums()).toHaveLength(1), 60_000);
  } finally {
    await postgres.execute('ALTER SYSTEM RESET autovacuum_naptime');
    await postgres.execute('SELECT pg_reload_conf()');
    await postgres.close();
  }
  await own.stop();
});

test('of several servers the writable one is used, even after it failed and another one was promoted', {
  tags: ['slow'],
}, async () => {
  const [standby, primary] = await Promise.all([ownPostgresForTest(), ownPostgresForTest()]);
  try {
    await standby.kill('SIGTERM');
    // In recovery without a primary: it answers queries but accepts no writes.
    writeFileSync(join(standby.dataDir, 'cluster', 'standby.signal'), '');
    await standby.restart();
    const url = `${standby.url},${primary.url}`;
    const db = new Postgres({ url, name: 'several', onError: () => undefined });
    const ask = async () => (await db.query<{ is: boolean }>('SELECT pg_is_in_recovery() AS is'))[0]?.is;
    expect(await ask()).toBe(false);
    expect(await writableUrl(url)).toBe(primary.url);
    await db.execute('CREATE TABLE written (n int)');
    expect(await db.transaction((queries) => queries.execute('INSERT INTO written VALUES (1)'))).toBe(1);
    await primary.kill('SIGKILL');
    await expect(ask()).rejects.toThrow(PostgresUnavailable);
    await expect(writableUrl(url)).rejects.toThrow(PostgresUnavailable);
    const own = new Postgres({ url: standby.url, name: 'alone' });
    await own.query('SELECT pg_promote()');
    await own.close();
    expect(await ask()).toBe(false);
    expect(await writableUrl(url)).toBe(standby.url);
    await db.close();
  } finally {
    await Promise.all([standby.stop(), primary.stop()]);
  }
});
