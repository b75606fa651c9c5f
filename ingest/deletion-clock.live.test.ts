import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { unfinishedErasuresOf } from '#api/admin/unfinished-erasures.ts';
import { DAY_MS, MINUTE_MS } from '#common/durations.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { unfinishedErasures } from './active-installs.ts';
import { DeletionClock } from './deletion-clock.ts';
import { Erasures } from './erasures.ts';

let database: TestPostgres;
let db: Postgres;
let elapsedMs = 0;
let lines: string[] = [];
beforeAll(async () => {
  database = await postgresForTest();
  db = new Postgres({ url: database.urlAs('signpost_ingest'), name: 'test' });
});
beforeEach(() => {
  lines = [];
});
afterAll(async () => {
  await db.close();
  await database.stop();
});

const newClock = (releasedMs = 0) =>
  new DeletionClock({
    postgres: db,
    time: { elapsed: () => elapsedMs },
    log: (_fields, line) => void lines.push(line),
    releasedMs,
  });
/** Also what a jump of Postgres' clock looks like. */
async function setBehind(days: number) {
  const own = new Postgres({ url: database.url, name: 'test' });
  await own.execute('UPDATE ingest.deletion_clock SET reached = now() - make_interval(days => $1)', [days]);
  await own.close();
}
const daysBehind = async () => {
  const sql = 'SELECT extract(epoch FROM now() - signpost_deletion_time())::float8 / 86400 AS days';
  return (await db.query<{ days: number }>(sql))[0]?.days ?? Number.NaN;
};
const reachedAhead = async () => {
  const own = new Postgres({ url: database.url, name: 'test' });
  const sql = 'SELECT extract(epoch FROM reached - now())::float8 / 86400 AS days FROM ingest.deletion_clock';
  const [row] = await own.query<{ days: number }>(sql);
  await own.close();
  return row?.days ?? Number.NaN;
};

test('the deletion clock follows the clock of Postgres', async () => {
  await setBehind(0);
  const clock = newClock();
  await clock.advance();
  elapsedMs += MINUTE_MS;
  await clock.advance();
  expect(await daysBehind()).toBeCloseTo(0, 3);
  expect([clock.behindMs < MINUTE_MS, lines]).toEqual([true, []]);
});

test('while the clock of Postgres is ahead, erasures are still applied and completed', async () => {
  await setBehind(800);
  const own = new Postgres({ url: database.url, name: 'test' });
  await own.execute(
    `INSERT INTO ingest.erasure (organization_id, until_ms, salt, hashes, expires_at) VALUES ('org', 7, 's', NULL, now() - interval '1 day')`,
  );
  await own.execute(
    `INSERT INTO ingest.unfinished_erasure (organization_id, app_id, days, begun_at) VALUES ('org', '', '{1}', now() - interval '799 days')`,
  );
  const erasures = new Erasures(db);
  await erasures.refresh();
  expect([erasures.mayCover(7), await unfinishedErasures(db), await unfinishedErasuresOf(own)]).toMatchObject([
    true,
    [{ organization_id: 'org' }],
    [{ organization_id: 'org' }],
  ]);
  await setBehind(0);
  await erasures.refresh();
  expect([erasures.mayCover(7), await unfinishedErasures(db), await unfinishedErasuresOf(own)]).toEqual([
    false,
    [],
    [],
  ]);
  await own.close();
});

test('if the clock of Postgres jumps 800 days ahead, the deletion clock moves two days per day, however many processes move it', async () => {
  await setBehind(800);
  const clocks = [newClock(), newClock(), newClock()];
  for (let hour = 0; hour <= 48; hour++) {
    for (const clock of clocks) await clock.advance();
    elapsedMs += DAY_MS / 24;
  }
  expect(await daysBehind()).toBeCloseTo(796, 3);
  // A process that has just begun has measured nothing.
  for (let n = 0; n < 10; n++) await newClock().advance();
  expect(await daysBehind()).toBeCloseTo(796, 3);
  expect(lines).toHaveLength(13);
  expect(lines[0]).toContain('the clock of Postgres is far ahead');
});

test('the deletion clock never passes the clock of Postgres, and the end of a jump is logged once', async () => {
  await setBehind(2);
  const clock = newClock();
  await clock.advance();
  elapsedMs += 30 * DAY_MS;
  await clock.advance();
  await clock.advance();
  expect(await daysBehind()).toBeCloseTo(0, 3);
  expect(lines).toHaveLength(2);
  await setBehind(-400);
  expect(await daysBehind()).toBe(0);
});

test('a deletion clock that a wrong clock set to before the release begins with the release', async () => {
  await setBehind(1_000);
  await newClock(Date.now() - 3 * DAY_MS).advance();
  expect(await daysBehind()).toBeCloseTo(3, 3);
});

test('once a clock of Postgres that was ahead is right, the deletion clock protects from the next jump', async () => {
  await setBehind(-1_500);
  // The release is later than now(), so now() is wrong.
  await newClock(Date.now() + DAY_MS).advance();
  expect(await reachedAhead()).toBeCloseTo(1_500, 3);
  const other = newClock();
  await other.advance();
  expect(await reachedAhead()).toBeCloseTo(0, 3);
  // Nor does one that read a later time than the one that was reached follow it.
  await setBehind(800);
  elapsedMs += MINUTE_MS;
  await other.advance();
  expect(await daysBehind()).toBeCloseTo(800, 2);
});
