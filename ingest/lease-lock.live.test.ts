import { afterEach, beforeEach, expect, test } from 'vitest';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import type { BatchEntry } from './checkpoints.ts';
import { PostgresCheckpoints } from './postgres-checkpoints.ts';

let database: TestPostgres;
let postgres: Postgres;
beforeEach(async () => {
  database = await postgresForTest();
  postgres = new Postgres({ url: database.url, name: 'test', connectionsMax: 5 });
});
afterEach(async () => {
  await postgres.close();
  await database.stop();
});

const batch = (batch_no: number): BatchEntry => ({
  batch_no,
  frames: [],
  parts: [],
  stream_time: 1,
  is_partial: false,
  is_again: false,
  stored: [],
  gone: [],
});
const patience = { timeout: 10_000, interval: 20 };

/** How many statements wait for a lock. */
async function waiting(): Promise<number> {
  const [row] = await postgres.query<{ n: number }>('SELECT count(*)::int AS n FROM pg_locks WHERE NOT granted');
  return row?.n ?? 0;
}

test('no other owner takes a partition while a transaction of its owner is open, even if the lease has expired', async () => {
  const checkpoints = new PostgresCheckpoints(postgres);
  const old = await checkpoints.acquire(0, 'old', 0);
  if (old === undefined) throw new Error('The lease is free.');
  await checkpoints.begin(old, batch(5), 0);
  await checkpoints.discard(old, 5);
  const ends: string[] = [];
  let begun: Promise<void> = Promise.resolve();
  let taken: Promise<void> = Promise.resolve();
  await postgres.transaction(async (blocker) => {
    // The owner's transaction has checked its lease, and waits for this row.
    await blocker.query('SELECT FROM ingest.last_batch WHERE partition = 0 FOR UPDATE');
    begun = checkpoints.begin(old, batch(6), 5).then(() => void ends.push('batch of the old owner'));
    await expect.poll(waiting, patience).toBe(1);
    taken = checkpoints.acquire(0, 'new', 60).then((lease) => {
      if (lease !== undefined) ends.push('lease of the new owner');
    });
    await expect.poll(async () => ends.length > 0 || (await waiting()) === 2, patience).toBe(true);
    expect(ends).toEqual([]);
  });
  await Promise.all([begun, taken]);
  expect(ends).toEqual(['batch of the old owner', 'lease of the new owner']);
});
