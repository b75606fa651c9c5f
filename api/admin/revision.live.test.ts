import { Command } from 'commander';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { DAY_MS, MINUTE_MS } from '#common/durations.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { addRevisionCommands } from './revision.ts';

let database: TestPostgres;
let postgres: Postgres;
beforeEach(async () => {
  database = await postgresForTest();
  postgres = new Postgres({ url: database.url, name: 'test', connectionsMax: 2 });
});
afterEach(async () => {
  await postgres.close();
  await database.stop();
});

const patience = { timeout: 45_000, interval: 100 };

interface Surroundings {
  readonly reachClickHouse?: () => Promise<void>;
  readonly nowMs?: () => number;
  readonly print?: (line: string) => void;
}

async function run(words: readonly string[], surroundings: Surroundings = {}): Promise<void> {
  const program = new Command('admin').exitOverride().configureOutput({ writeErr: () => undefined });
  addRevisionCommands(program, {
    postgres: () => postgres,
    clickhouse: () => {
      throw new Error('the request was taken for done');
    },
    reachClickHouse: () => Promise.resolve(),
    nowMs: Date.now,
    print: () => undefined,
    onFaults: () => undefined,
    ...surroundings,
  });
  await program.parseAsync(['node', 'admin', ...words]);
}

/** A client of a port on which nothing listens. */
async function unreachable(): Promise<void> {
  const client = new ClickHouse({ url: 'http://127.0.0.1:1' });
  try {
    await client.query('SELECT 1');
  } finally {
    await client.close();
  }
}

test('a replay from a time in the future is refused, and so is a rebuild of no day', async () => {
  const future = new Date(Date.now() + 2 * DAY_MS).toISOString();
  await expect(run(['replay', '--from', future])).rejects.toThrow(/--from is in the future/);
  await expect(run(['rebuild', '--from', future])).rejects.toThrow(/no day is in between/);
  await expect(run(['rebuild', '--from', '2026-02-02', '--to', '2026-02-01'])).rejects.toThrow(/no day is in between/);
  expect(await postgres.query('SELECT FROM ingest.revision')).toEqual([]);
});

test('a replay whose request was lost when Postgres was restored is not reported as done, and neither is an older one', async () => {
  await postgres.execute("INSERT INTO ingest.lease VALUES (0, 'one', 1, now()), (1, 'one', 1, now())");
  const isAsked = async () => (await postgres.query('SELECT FROM ingest.revision WHERE done_at IS NULL')).length === 2;
  const before = `INSERT INTO ingest.revision (partition, replay_from, requested_at, done_at)
    SELECT partition, 1, now() - interval '1 hour', now() FROM ingest.lease`;
  for (const restored of ['SELECT', before]) {
    // A minute ago: the clock of Postgres may be a little behind.
    const outcome = run(['replay', '--from', new Date(Date.now() - MINUTE_MS).toISOString()]).catch(
      (error: unknown) => error,
    );
    await expect.poll(isAsked, patience).toBe(true);
    await postgres.transaction(async (queries) => {
      await queries.execute('DELETE FROM ingest.revision');
      await queries.execute(restored);
    });
    expect(String(await outcome)).toContain('Postgres no longer has this request');
  }
});

test('a replay while ClickHouse is away is refused before ingest is asked, and one that waits says that it is away', async () => {
  await postgres.execute("INSERT INTO ingest.lease VALUES (0, 'one', 1, now())");
  const words = ['replay', '--from', new Date(Date.now() - MINUTE_MS).toISOString()];
  await expect(run(words, { reachClickHouse: unreachable })).rejects.toThrow(ClickHouseFailure);
  expect(await postgres.query('SELECT FROM ingest.revision')).toEqual([]);

  let asked = 0;
  const lines: string[] = [];
  let now = Date.now();
  const outcome = run(words, {
    // It ends after the request was made.
    reachClickHouse: () => (asked++ === 0 ? Promise.resolve() : unreachable()),
    nowMs: () => (now += MINUTE_MS),
    print: (line) => lines.push(line),
  }).catch((error: unknown) => error);
  await expect
    .poll(() => lines[0], patience)
    .toMatch(/^waiting for ingest: partitions 0, and ClickHouse is unavailable: .*1/);
  await postgres.execute('DELETE FROM ingest.revision');
  await outcome;
});
