/** Rows that a Postgres wrote whose clock was ahead, for processes that then died. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Postgres } from '#common/stores/postgres.ts';
import { systemTime } from '#common/time.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { ClaimedName } from './claimed-name.ts';
import { PostgresCheckpoints } from './postgres-checkpoints.ts';
import { PostgresMembers } from './postgres-members.ts';

let postgres: TestPostgres;
let db: Postgres;
beforeAll(async () => {
  postgres = await postgresForTest();
  db = new Postgres({ url: postgres.urlAs('signpost_ingest'), name: 'test' });
});
afterAll(async () => {
  await db.close();
  await postgres.stop();
});

test.each(['1 hour', '1 year'])(
  'a lease that is dated %s ahead is free, and a later lease of the same process holds',
  async (ahead) => {
    const checkpoints = new PostgresCheckpoints(db);
    await checkpoints.acquire(0, 'ghost', 6);
    await db.execute('UPDATE ingest.lease SET expires_at = now() + $1::interval', [ahead]);
    expect(await checkpoints.acquire(0, 'a', 6)).toMatchObject({ owner: 'a' });
    expect(await checkpoints.acquire(0, 'b', 300)).toBeUndefined();
    await db.execute('UPDATE ingest.lease SET expires_at = now()');
    expect(await checkpoints.acquire(0, 'b', 300)).toMatchObject({ owner: 'b' });
    expect(await checkpoints.acquire(0, 'a', 1)).toBeUndefined();
  },
);

test('a member that is dated ahead gets no share, its lease counts as free, and a stray that is dated ahead is not recent', async () => {
  const members = new PostgresMembers(db);
  const checkpoints = new PostgresCheckpoints(db);
  await checkpoints.acquire(1, 'ghost', 6);
  await members.announce({ owner: 'ghost', partitions: 1 }, 6);
  await members.reportStrays();
  await db.execute(
    `UPDATE ingest.member SET expires_at = now() + interval '1 year', joined_at = now() + interval '1 year'`,
  );
  await db.execute(`UPDATE ingest.lease SET expires_at = now() + interval '1 year'`);
  await db.execute(`UPDATE ingest.stray SET seen_at = now() + interval '1 year'`);
  const seen = await members.announce({ owner: 'a', partitions: 2 }, 6);
  expect(seen.members).toEqual([{ owner: 'a', partitions: 2 }]);
  expect(seen.owned).toContainEqual({ partition: 1, owner: null });
  expect(seen.areStraysRecent).toBe(false);
  await members.reportStrays();
  expect((await members.announce({ owner: 'a', partitions: 2 }, 6)).areStraysRecent).toBe(true);
});

test('a name whose heartbeat is dated ahead is free at once', async () => {
  const nameOf = (run: string) =>
    new ClaimedName({
      postgres: db,
      holder: { name: 'm/ingest-0', run, place: run, pid: 1 },
      time: { ...systemTime, after: () => expect.unreachable('nothing has to be watched') },
      onTaken: () => undefined,
    });
  await nameOf('ghost').take();
  await db.execute(`UPDATE ingest.name SET beat_at = now() + interval '1 year'`);
  expect(await nameOf('next').take()).toBe(true);
});

test('a machine whose report is dated ahead does not hold its name', async () => {
  const checkpoints = new PostgresCheckpoints(db);
  const report = async (committedTo: number, holder: string) =>
    (await checkpoints.reportProgress({ machine: 'm', committedTo, sentAt: undefined, holder })) !== undefined;
  await report(1, 'ghost');
  expect(await report(2, 'next')).toBe(false);
  await db.execute(`UPDATE ingest.progress SET updated_at = now() + interval '1 year'`);
  expect(await report(2, 'next')).toBe(true);
});

test('a clock of Postgres that is ahead deletes no salt of the last 14 days', async () => {
  const checkpoints = new PostgresCheckpoints(db);
  const today = Math.floor(Date.now() / 86_400_000);
  const [salt, old] = [await checkpoints.salt(today - 10, 14), await checkpoints.salt(today - 20, 14)];
  expect([await checkpoints.salt(today - 10, 14), (await checkpoints.salt(today - 20, 14)) === old]).toEqual([
    salt,
    false,
  ]);
  const own = new Postgres({ url: postgres.url, name: 'test' });
  await own.execute(`UPDATE ingest.deletion_clock SET reached = now() - interval '800 days'`);
  await own.close();
  const kept = await checkpoints.salt(today - 800, 14);
  await checkpoints.salt(today, 14);
  expect(await checkpoints.salt(today - 800, 14)).toBe(kept);
});
