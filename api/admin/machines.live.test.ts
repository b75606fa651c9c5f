import { Registry } from 'prom-client';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { exposeAsOf } from '#api/analytics/as-of.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { catchUpDeletion, reportingMachines, retireMachine } from './machines.ts';

let postgres: TestPostgres;
let db: Postgres;
beforeAll(async () => {
  postgres = await postgresForTest();
  db = new Postgres({ url: postgres.url, name: 'test' });
});
beforeEach(async () => {
  await db.execute('DELETE FROM ingest.progress');
  await db.execute('DELETE FROM ingest.name');
  await db.execute('DELETE FROM click_holders');
  await report('stays', 0, 0);
});
afterAll(async () => {
  await db.close();
  await postgres.stop();
});

/** A report that was stored this many seconds ago and lagged by this many seconds at that time. */
async function report(machine: string, agoSeconds: number, behindSeconds: number): Promise<void> {
  await db.execute(
    `INSERT INTO ingest.progress (machine, updated_at, committed_to)
     SELECT $1, at, (extract(epoch FROM at) - $3::integer) * 1000 FROM (SELECT now() - make_interval(secs => $2) AS at) AS moment`,
    [machine, agoSeconds, behindSeconds],
  );
}

async function ingest(name: string, agoSeconds: number): Promise<void> {
  await db.execute(
    `INSERT INTO ingest.name (name, run, place, pid, beat_at) VALUES ($1, 'r', 'p', 1, now() - make_interval(secs => $2))`,
    [name, agoSeconds],
  );
}

async function left(): Promise<string[]> {
  const rows = await db.query<{ name: string }>(
    'SELECT machine AS name FROM ingest.progress UNION ALL SELECT name FROM ingest.name ORDER BY name',
  );
  return rows.map(({ name }) => name);
}

test('a machine whose records are all stored is removed with its ingests, and no other', async () => {
  await report('gone', 60, 1);
  await ingest('gone/ingest-0', 60);
  await ingest('gone-too/ingest-0', 60);
  expect(await retireMachine(db, 'gone', false)).toEqual({ kind: 'retired', given_up_seconds: 0, held_clicks: 0 });
  expect(await left()).toEqual(['gone-too/ingest-0', 'stays']);
});

test('the machine that as_of waits for is listed first, and metrics tell that it does not report and how far as_of is behind', async () => {
  await report('late', 0, 50);
  await report('gone', 100, 1);
  expect((await reportingMachines(db)).map(({ machine }) => machine)).toEqual(['gone', 'late', 'stays']);
  const metrics = new Registry();
  const reader = new Postgres({ url: postgres.urlAs('signpost_api_process'), name: 'test' });
  exposeAsOf(metrics, reader);
  const shown = async (name: string) =>
    (await metrics.getMetricsAsJSON()).find((one) => one.name === name)?.values[0]?.value;
  expect(await shown('signpost_api_silent_machines')).toBe(1);
  expect(await shown('signpost_api_as_of_lag_seconds')).toBeGreaterThan(100.9);
  await retireMachine(db, 'gone', false);
  expect(await shown('signpost_api_silent_machines')).toBe(0);
  const lag = await shown('signpost_api_as_of_lag_seconds');
  expect(lag).toBeGreaterThan(49.9);
  expect(lag).toBeLessThan(100.9);
  await reader.close();
  // A Postgres that does not answer is no healthy machine.
  expect(await shown('signpost_api_silent_machines')).toBeNaN();
});

test('marks of its journals stay, so that a journal from a backup is counted once', async () => {
  await db.execute(`INSERT INTO ingest.mark (producer_id, kind, partition, mark) VALUES ('p', 'click', 0, 7)`);
  await report('gone', 60, 1);
  await retireMachine(db, 'gone', false);
  expect(await db.query('SELECT mark FROM ingest.mark')).toEqual([{ mark: 7 }]);
});

async function redirector(machine: string, agoSeconds: number): Promise<void> {
  await db.execute(
    `INSERT INTO click_holders VALUES ($1 || '-holder', $1, 'redirector-0', now() - make_interval(secs => $2))`,
    [machine, agoSeconds],
  );
}

test('clicks that its redirectors held count as used, and other redirectors stop waiting for them', async () => {
  await redirector('edge-9', 60);
  await db.execute(`INSERT INTO click_shares VALUES ('org_1', 'app_1', 'lnk_1', 'edge-9-holder', 20, 5, 3)`);
  expect(await retireMachine(db, 'edge-9', false)).toEqual({ kind: 'retired', given_up_seconds: 0, held_clicks: 12 });
  expect(await db.query('SELECT holder FROM click_holders WHERE gone_at IS NULL')).toEqual([]);
  expect(await db.query('SELECT granted, returned, is_given_up FROM click_shares')).toEqual([
    { granted: 20, returned: 5, is_given_up: true },
  ]);
});

test.each<[string, () => Promise<void>, RegExp]>([
  ['has a redirector that runs', () => redirector('edge', 2), /the redirector redirector-0 of edge is running/],
  ['still reports', () => report('edge', 3, 0), /reported \d seconds ago: stop its edge processes/],
  ['runs an ingest', () => ingest('edge/ingest-0', 2), /the ingest edge\/ingest-0 is running/],
  ['has records that are not stored', () => report('edge', 3_600, 30), /has records since \S+ that are not stored/],
  ['is not known', async () => undefined, /there is no machine edge; these machines report: stays/],
])('a machine that %s is not retired, and the answer says what to do', async (_, arrange, message) => {
  await arrange();
  const before = await left();
  expect(await retireMachine(db, 'edge', false)).toEqual({ kind: 'refused', message: expect.stringMatching(message) });
  expect(await left()).toEqual(before);
});

test('records of a lost machine can be given up, and the command reports how many seconds of records are lost', async () => {
  await report('lost', 3_600, 30);
  expect(await retireMachine(db, 'lost', true)).toEqual({ kind: 'retired', given_up_seconds: 30, held_clicks: 0 });
  expect(await left()).toEqual(['stays']);
});

test('a lost machine is removed although its last reports are dated a year ahead', async () => {
  await report('gone', -365 * 86_400, 2);
  await ingest('gone/ingest-0', -365 * 86_400);
  await db.execute(`UPDATE ingest.progress SET committed_to = extract(epoch FROM now()) * 1000 WHERE machine = 'gone'`);
  expect(await retireMachine(db, 'gone', false)).toEqual({ kind: 'retired', given_up_seconds: 0, held_clicks: 0 });
  expect(await left()).toEqual(['stays']);
});

test('a machine whose last report is dated a year ahead is reported as silent by the metric and by the command', async () => {
  await report('ahead', -365 * 86_400, 0);
  const registry = new Registry();
  exposeAsOf(registry, db);
  expect(await registry.getSingleMetricAsString('signpost_api_silent_machines')).toMatch(/machines 1\b/);
  const machines = await reportingMachines(db);
  expect(machines.map(({ machine, silent_seconds }) => [machine, Math.round(silent_seconds / 86_400)])).toEqual([
    ['stays', 0],
    ['ahead', 365],
  ]);
});

test('a deletion clock that is years behind reaches the clock of Postgres with one command', async () => {
  await db.execute(`UPDATE ingest.deletion_clock SET reached = now() - interval '800 days'`);
  const { now, reached } = await catchUpDeletion(db);
  expect(Math.round((now.getTime() - reached.getTime()) / 86_400_000)).toBe(800);
  expect(
    await db.query(`SELECT now() - reached < interval '1 minute' AS is_reached FROM ingest.deletion_clock`),
  ).toEqual([{ is_reached: true }]);
});
