import { Command } from 'commander';
import { afterEach, beforeEach, expect, test } from 'vitest';
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

async function replay(): Promise<void> {
  const program = new Command('admin').exitOverride().configureOutput({ writeErr: () => undefined });
  addRevisionCommands(program, {
    postgres: () => postgres,
    clickhouse: () => {
      throw new Error('the request was taken for done');
    },
    nowMs: Date.now,
    print: () => undefined,
    onFaults: () => undefined,
  });
  await program.parseAsync(['node', 'admin', 'replay', '--from', new Date().toISOString()]);
}

test('a replay whose request was lost when Postgres was restored is not reported as done, and neither is an older one', async () => {
  await postgres.execute("INSERT INTO ingest.lease VALUES (0, 'one', 1, now()), (1, 'one', 1, now())");
  const isAsked = async () => (await postgres.query('SELECT FROM ingest.revision WHERE done_at IS NULL')).length === 2;
  const before = `INSERT INTO ingest.revision (partition, replay_from, requested_at, done_at)
    SELECT partition, 1, now() - interval '1 hour', now() FROM ingest.lease`;
  for (const restored of ['SELECT', before]) {
    const outcome = replay().catch((error: unknown) => error);
    await expect.poll(isAsked, patience).toBe(true);
    await postgres.transaction(async (queries) => {
      await queries.execute('DELETE FROM ingest.revision');
      await queries.execute(restored);
    });
    expect(String(await outcome)).toContain('Postgres no longer has this request');
  }
});
