import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { audit, auditHour } from '#clickhouse/queries/audit.ts';
import { ledgerFrom } from '#clickhouse/queries/missing-rows.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { clickhouseForTest, postgresForTest, type TestDatabase, type TestPostgres } from '#testing/servers.ts';
import { PostgresAuditTurns } from './audit-turns.ts';
import { HourlyAudit } from './hourly-audit.ts';

const nowMs = Date.parse('2026-04-10T12:30:00Z');
const log = { warn: () => undefined, error: () => undefined };
let store: TestDatabase;
let client: ClickHouse;
let postgres: TestPostgres;
let db: Postgres;
const turnsOf = (owner: string) => new PostgresAuditTurns(db, owner);

beforeAll(async () => {
  [store, postgres] = await Promise.all([clickhouseForTest(), postgresForTest()]);
  db = new Postgres({ url: postgres.urlAs('signpost_api_process'), name: 'test' });
  client = new ClickHouse({ url: store.url });
});
afterAll(async () => {
  await client.close();
  await db.close();
  await Promise.all([store.stop(), postgres.stop()]);
});

async function figuresOf(metrics: Registry): Promise<Record<string, number>> {
  const values = (await metrics.getSingleMetric('signpost_audit_faults')?.get())?.values ?? [];
  return Object.fromEntries(values.map((one) => [String(one.labels['what']), one.value]));
}

test('the last complete hour is audited, and its faults are exposed as metrics', async () => {
  await client.command(
    "INSERT INTO clicks (click_id, organization_id, app_id, time, producer_id, frame_no) VALUES ('a', 'o', 'p', '2026-04-10 11:10:00', 'edge', 1), ('b', 'o', 'p', '2026-04-10 11:20:00', 'edge', 3), ('c', 'o', 'p', '2026-04-10 12:20:00', 'edge', 7)",
  );
  const metrics = new Registry();
  const audit = new HourlyAudit({ clickhouse: client, turns: turnsOf('a'), metrics, log, clock: () => nowMs });
  expect(await audit.look()).toBe(Date.parse('2026-04-10T13:10:00Z'));
  expect(await figuresOf(metrics)).toEqual({ lost: 1, duplicated: 0, rollup_difference: 0 });
  const [audited] = (await metrics.getSingleMetric('signpost_audit_to_seconds')?.get())?.values ?? [];
  expect(audited?.value).toBe(Date.parse('2026-04-10T12:00:00Z') / 1000);
});

test('frames that a journal has lost are reported in the hour in which they were noted, and not again as a gap', async () => {
  const owner = new Postgres({ url: postgres.url, name: 'test' });
  const hour = Date.parse('2026-05-10T11:00:00Z');
  const note = (kind: string, from: number, to: number, records: number, at: string) =>
    owner.execute(
      'INSERT INTO ingest.lost_frames (partition, kind, producer_id, frame_from, frame_to, records, noted_at) VALUES (0, $1, $2, $3, $4, $5, $6)',
      [kind, 'damaged', from, to, records, at],
    );
  await client.command(
    "INSERT INTO clicks (click_id, organization_id, app_id, time, producer_id, frame_no) VALUES ('d', 'o', 'p', '2026-05-10 11:10:00', 'damaged', 1), ('e', 'o', 'p', '2026-05-10 11:20:00', 'damaged', 4), ('f', 'o', 'p', '2026-05-10 11:30:00', 'damaged', 6)",
  );
  await note('click', 2, 3, 7, '2026-05-10T12:01:00Z');
  await note('event', 9, 9, 50, '2026-05-10T11:59:00Z');
  await owner.close();
  const lostIn = async (at: number) =>
    (await auditHour(client, at, { lost: await turnsOf('a').lostSince(at - DAY_MS) })).figures.lost;
  // Frame 5 is missing as well, and nothing says why.
  expect([await lostIn(hour), await lostIn(hour + HOUR_MS)]).toEqual([51, 7]);
  const known = { lost: await turnsOf('a').lostSince(hour - DAY_MS) };
  const report = await audit(client, { from_ms: hour, to_ms: hour }, undefined, known);
  expect(report.lost).toBe(58);
  // Stored clicks that are missing besides leave the gap of frame 5, at most, and none of the frames that a journal lost.
  await withLedger("VALUES (0, 20000, 'm', 20, 0)", [], async () => {
    const ledger = await ledgerFrom(db);
    expect((await audit(client, { from_ms: hour, to_ms: hour }, undefined, { ...known, ledger })).lost).toBe(58 + 19);
    expect((await auditHour(client, hour, { ...known, ledger })).figures.lost).toBe(51 + 19);
  });
});

test('an audit that ClickHouse does not answer is retried, and reports nothing until then', async () => {
  const metrics = new Registry();
  const unreachable = {
    query: () => Promise.reject(new ClickHouseFailure('unavailable', 0, 'unreachable', undefined)),
  };
  const audit = new HourlyAudit({
    clickhouse: unreachable,
    turns: turnsOf('a'),
    metrics,
    log,
    clock: () => nowMs + HOUR_MS,
  });
  expect(await audit.look()).toBe(nowMs + HOUR_MS + 300_000);
  expect(await figuresOf(metrics)).toEqual({});
});

test('of several API processes, one audits an hour, and all of them expose its result', async () => {
  let audits = 0;
  let wait: Promise<unknown> = Promise.resolve();
  const counted: Pick<ClickHouse, 'query'> = {
    query: async (...args: Parameters<ClickHouse['query']>) => {
      audits++;
      await wait;
      return await client.query(...args);
    },
  };
  const clock = () => nowMs + 24 * HOUR_MS;
  const processes = ['a', 'b', 'c'].map((owner) => {
    const metrics = new Registry();
    return { metrics, audit: new HourlyAudit({ clickhouse: counted, turns: turnsOf(owner), metrics, log, clock }) };
  });
  let finish = (_?: unknown) => {};
  wait = new Promise((done) => {
    finish = done;
  });
  const first = processes[0]?.audit.look();
  await expect.poll(() => audits).toBeGreaterThan(0);
  const begun = audits;
  for (const { audit } of processes.slice(1)) expect(await audit.look()).toBe(clock() + 30_000);
  expect(audits).toBe(begun);
  finish();
  await first;
  const made = audits;
  for (const { audit } of processes.slice(1)) expect(await audit.look()).toBe(await first);
  expect(audits).toBe(made);
  for (const { metrics } of processes) {
    expect(await figuresOf(metrics)).toEqual({ lost: 0, duplicated: 0, rollup_difference: 0 });
  }
});

test('an hour that one process could not audit is audited by another', async () => {
  const clock = () => nowMs + 48 * HOUR_MS;
  const away = { query: () => Promise.reject(new ClickHouseFailure('unavailable', 0, 'away', undefined)) };
  const metrics = new Registry();
  await new HourlyAudit({ clickhouse: away, turns: turnsOf('a'), metrics: new Registry(), log, clock }).look();
  await new HourlyAudit({ clickhouse: client, turns: turnsOf('b'), metrics, log, clock }).look();
  expect(await figuresOf(metrics)).toEqual({ lost: 0, duplicated: 0, rollup_difference: 0 });
});

test('hours during which no API process ran are audited once one runs', async () => {
  const clock = () => nowMs + 52 * HOUR_MS;
  await new HourlyAudit({ clickhouse: client, turns: turnsOf('a'), metrics: new Registry(), log, clock }).look();
  const audited = await db.query<{ hours: number }>(
    'SELECT (hour - $1::bigint) / 3600000 AS hours FROM hourly_audits WHERE hour > $1 AND figures IS NOT NULL ORDER BY hour',
    [Date.parse('2026-04-12T11:00:00Z')],
  );
  expect(audited.map(({ hours }) => hours)).toEqual([1, 2, 3, 4]);
});

/** Writes lines of rows that ClickHouse does not have. */
async function withLedger(lines: string, params: readonly unknown[], work: () => Promise<void>): Promise<void> {
  const owner = new Postgres({ url: postgres.url, name: 'test' });
  try {
    await owner.execute(
      `INSERT INTO ingest.ledger (partition, batch_day, raw_table, month, rows, rows_again, batch_from, batch_to, time_from, time_to)
       SELECT partition, batch_day, 'clicks', month, rows, again, batch_day * 86400000::bigint, batch_day * 86400000::bigint, $1, $1 FROM (${lines}) AS line (partition, batch_day, month, rows, again)`,
      [Date.now(), ...params],
    );
    await work();
  } finally {
    await owner.execute('TRUNCATE ingest.ledger');
    await owner.close();
  }
}

test('a ledger of many partitions and years is audited, and an hour reads a part of it', async () => {
  const lines = `SELECT partition, day, (day / 30)::text, 1, 0 FROM generate_series(0, 255) AS partition, generate_series(20000, 20799) AS day`;
  await withLedger(lines, [], async () => {
    const ledger = await ledgerFrom(db);
    expect(ledger).toHaveLength(204_800);
    const report = await audit(client, { from_ms: nowMs - 400 * DAY_MS, to_ms: nowMs - 400 * DAY_MS }, undefined, {
      ledger,
    });
    expect(report).toMatchObject({ lost: 204_800, ledger_from: new Date(20_000 * DAY_MS).toISOString() });
    const due = await turnsOf('a').ledger(nowMs);
    expect(due.length).toBeLessThan(256 * (2 + 34 + 1));
    expect((await auditHour(client, nowMs - 400 * DAY_MS, { ledger: due })).figures.lost).toBe(due.length);
  });
});

test('what is lost after a replay is found in the turn of its month, and each partition has its own last days', async () => {
  const [today, before] = [Math.floor(nowMs / DAY_MS), Math.floor(nowMs / DAY_MS) - 10];
  const lines = `VALUES (0, $2::integer, 'new', 0, 0), (0, $3::integer - 1, 'old', 100, 0), (0, $3::integer, 'old', 40, 40), (1, $3::integer, 'old', 7, 0)`;
  await withLedger(lines, [today, before], async () => {
    const lostIn = async (turn: number) =>
      (await auditHour(client, nowMs, { ledger: await turnsOf('a').ledger(turn * HOUR_MS) })).figures.lost;
    expect([await lostIn(before % 24), await lostIn((before - 1) % 24), await lostIn((before + 5) % 24)]).toEqual([
      107, 7, 7,
    ]);
  });
});

test('an API whose clock is ahead audits no hour that has not ended, and one that a clock far ahead has claimed is audited again', async () => {
  const hour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  expect(await turnsOf('a').begin(hour)).toEqual({ kind: 'others' });
  const past = hour - 3 * HOUR_MS;
  expect(await turnsOf('a').begin(past)).toEqual({ kind: 'mine' });
  await turnsOf('a').done(past, { figures: { lost: 9 } as never, failures: [] });
  expect(await turnsOf('b').begin(past)).toMatchObject({ kind: 'done' });
  await db.execute(`UPDATE hourly_audits SET claimed_until = now() + interval '1 year' WHERE hour = $1`, [past]);
  expect(await turnsOf('b').begin(past)).toEqual({ kind: 'mine' });
});
