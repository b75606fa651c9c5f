import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { systemTime } from '#common/time.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { ClaimedName, processPlace } from './claimed-name.ts';
import { PostgresCheckpoints } from './postgres-checkpoints.ts';

let postgres: TestPostgres;
let db: Postgres;
const names: ClaimedName[] = [];
let runs = 0;

beforeAll(async () => {
  postgres = await postgresForTest();
  db = new Postgres({ url: postgres.urlAs('signpost_ingest'), name: 'test' });
});
beforeEach(async () => {
  for (const name of names.splice(0)) await name.stop();
  await db.execute('DELETE FROM ingest.name');
});
afterAll(async () => {
  for (const name of names) await name.stop();
  await db.close();
  await postgres.stop();
});

function nameOf(place: string, pid: number, onTaken = () => {}): ClaimedName {
  const holder = { name: 'machine/ingest-0', run: `run-${++runs}`, place, pid };
  const name = new ClaimedName({ postgres: db, holder, time: systemTime, onTaken });
  names.push(name);
  return name;
}

const deadPid = 2 ** 22 + 1;

test('of two machines with one name, the second is refused while the first runs, and gets the name once the first has stopped', async () => {
  const first = nameOf('host-a', 1);
  expect(await first.take()).toBe(true);
  first.start();
  expect(await nameOf('host-b', 1).take()).toBe(false);
  await first.stop();
  expect(await nameOf('host-b', 1).take()).toBe(true);
});

test('a process that was killed and restarted gets its name back at once', async () => {
  const before = nameOf(processPlace(), deadPid);
  expect(await before.take()).toBe(true);
  const begun = performance.now();
  expect(await nameOf(processPlace(), process.pid).take()).toBe(true);
  expect(performance.now() - begun).toBeLessThan(400);
});

test('the name of a machine that died is taken over after some seconds without a heartbeat', async () => {
  expect(await nameOf('host-a', 1).take()).toBe(true);
  expect(await nameOf('host-b', 1).take()).toBe(true);
});

test('a process that was paused while another took its name ends', { tags: ['slow'] }, async () => {
  let isEnded = false;
  const still = nameOf('host-a', 1, () => {
    isEnded = true;
  });
  expect(await still.take()).toBe(true);
  const other = nameOf('host-b', 1);
  expect(await other.take()).toBe(true);
  other.start();
  still.start();
  await expect.poll(() => isEnded, { timeout: 10_000 }).toBe(true);
});

test('a name that a restored Postgres does not know is claimed again, and no process ends', async () => {
  let isEnded = false;
  const name = nameOf('host-a', 1, () => {
    isEnded = true;
  });
  expect(await name.take()).toBe(true);
  name.start();
  await db.execute('DELETE FROM ingest.name');
  await expect.poll(() => db.query('SELECT name FROM ingest.name'), { timeout: 10_000 }).toHaveLength(1);
  expect(isEnded).toBe(false);
});

test('reports of two machines under one name do not hide each other: those of the second are refused while the first reports', async () => {
  const checkpoints = new PostgresCheckpoints(db);
  const report = async (holder: string, committedTo: number) =>
    (await checkpoints.reportProgress({ machine: 'edge', committedTo, sentAt: undefined, holder })) !== undefined;
  expect([await report('a', 1), await report('b', 2), await report('a', 3)]).toEqual([true, false, true]);
  // A publisher of an earlier version sends no holder.
  expect([await report('', 4), await report('b', 5)]).toEqual([true, false]);
  await db.execute("UPDATE ingest.progress SET updated_at = now() - interval '1 minute'");
  expect([await report('b', 6), await report('a', 7)]).toEqual([true, false]);
  const [row] = await db.query<{ committed_to: number }>(
    "SELECT committed_to FROM ingest.progress WHERE machine = 'edge'",
  );
  expect(row?.committed_to).toBe(6);
});

test('a machine with a wrong clock neither holds back nor advances the time up to which statistics are complete', async () => {
  const checkpoints = new PostgresCheckpoints(db);
  const lagMs = 5_000;
  for (const offMs of [
    -3 * 365 * DAY_MS,
    -30 * DAY_MS,
    -30 * MINUTE_MS,
    0,
    30 * MINUTE_MS,
    2 * HOUR_MS,
    800 * DAY_MS,
  ]) {
    const sentAt = Date.now() + offMs;
    const aheadMs = await checkpoints.reportProgress({ machine: 'm', committedTo: sentAt - lagMs, sentAt, holder: '' });
    expect(Math.abs(Number(aheadMs) - offMs)).toBeLessThan(MINUTE_MS);
    const [row] = await db.query<{ lag: number }>(
      "SELECT extract(epoch FROM now()) * 1000 - committed_to AS lag FROM ingest.progress WHERE machine = 'm'",
    );
    // Within the hour by which clocks may differ, the machine's own time counts, as it does for its records.
    const isRight = Math.abs(offMs) <= HOUR_MS;
    expect(Math.abs(Number(row?.lag) - lagMs + (isRight ? offMs : 0))).toBeLessThan(MINUTE_MS);
  }
});
