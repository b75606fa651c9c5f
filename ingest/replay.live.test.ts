import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { addRevisionCommands } from '#api/admin/revision.ts';
import { audit } from '#clickhouse/queries/audit.ts';
import { DAY_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { encodeFrame } from '#common/log/frame.ts';
import { installTextMax } from '#common/log/install-record.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import type { RecordKind } from '#common/log/record.ts';
import { Nats } from '#common/stores/nats.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { PipelineHarness, testClick } from './testing/pipeline-harness.ts';

let way: PipelineHarness;
let postgres: Postgres;
let backup: string;
beforeAll(() => {
  backup = mkdtempSync(join(tmpdir(), 'backup-'));
});
afterAll(() => rmSync(backup, { recursive: true, force: true }));
beforeEach(async () => {
  way = await PipelineHarness.start({ hasOwnClickhouse: true });
  postgres = new Postgres({ url: way.postgres.url, name: 'test', connectionsMax: 2 });
});
afterEach(async () => {
  await way.stopIngests();
  await postgres.close();
  await way.stop();
});

const patience = { timeout: 45_000, interval: 250 };
const long = 90_000;
const ingestTables = ['lease', 'checkpoint', 'mark', 'batch', 'last_batch', 'ledger'];

async function savePostgres(): Promise<void> {
  for (const table of ingestTables) {
    await postgres.execute(`DROP TABLE IF EXISTS saved_${table}`);
    await postgres.execute(`CREATE TABLE saved_${table} AS TABLE ingest.${table}`);
  }
}

async function restorePostgres(): Promise<void> {
  for (const table of ingestTables) {
    await postgres.execute(`DELETE FROM ingest.${table}`);
    await postgres.execute(`INSERT INTO ingest.${table} SELECT * FROM saved_${table}`);
  }
}

async function saveClickHouse(): Promise<void> {
  await way.clickhouse.kill('SIGTERM');
  rmSync(backup, { recursive: true, force: true });
  cpSync(way.clickhouse.dataDir, backup, { recursive: true });
  await way.clickhouse.restart();
}

async function restoreClickHouse(): Promise<void> {
  await way.clickhouse.kill('SIGKILL');
  rmSync(way.clickhouse.dataDir, { recursive: true, force: true });
  cpSync(backup, way.clickhouse.dataDir, { recursive: true });
  await way.clickhouse.restart();
}

async function append(kind: RecordKind, json: string): Promise<void> {
  await new Promise<void>((committed, fail) => {
    const waiter = { committed, refused: () => fail(new Error('refused')) };
    way.journal.append(way.journal.lane(kind, 0), json, waiter);
  });
}

async function keepAndStore(count: number): Promise<void> {
  await way.keep(count);
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
}

async function admin(...args: string[]): Promise<{ lines: string[]; isFaulty: boolean }> {
  const lines: string[] = [];
  let isFaulty = false;
  const program = new Command('admin').exitOverride().configureOutput({ writeErr: () => undefined });
  addRevisionCommands(program, {
    postgres: () => postgres,
    clickhouse: () => way.client,
    reachClickHouse: () => Promise.resolve(),
    nowMs: Date.now,
    // On a busy machine, waiting messages come first.
    print: (line) => void (line.startsWith('waiting for ingest') || lines.push(line)),
    onFaults: () => {
      isFaulty = true;
    },
  });
  await program.parseAsync(['node', 'admin', ...args]);
  return { lines, isFaulty };
}

async function faults() {
  const now = Date.now();
  const { lost, duplicated, rollup_difference } = await audit(way.client, { from_ms: now - DAY_MS, to_ms: now });
  return { lost, duplicated, rollup_difference };
}
const none = { lost: 0, duplicated: 0, rollup_difference: 0 };

test('after ClickHouse is restored to an older state than Postgres, a replay stores the missing records once, while ingest runs', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const ingest = way.ingest();
  await keepAndStore(200);
  const from = new Date().toISOString();
  await saveClickHouse();
  await keepAndStore(150);
  await savePostgres();
  await keepAndStore(120);
  await ingest.stop();
  await restorePostgres();
  await restoreClickHouse();
  const second = way.ingest();
  await way.keep(80);
  // Records from after the Postgres backup are delivered again; those from between the two backups are not.
  await expect.poll(() => way.figures(), patience).toMatchObject({ rows: 400, distinct: 400 });
  // Backups of different tables are not taken at the same moment.
  await way.client.command('TRUNCATE TABLE clicks_by_dimension');
  const { lines, isFaulty } = await admin('replay', '--from', from);
  expect(lines[0]).toMatch(/^150 rows stored, [1-9]\d* rollup cells corrected$/);
  expect([lines.at(-1), isFaulty]).toEqual(['0 click frames are missing', false]);
  await keepAndStore(50);
  expect(await faults()).toEqual(none);
  // Repeated, the replay finds nothing missing.
  expect((await admin('replay', '--from', from)).lines[0]).toBe('0 rows stored, 0 rollup cells corrected');
  await expect.poll(() => way.figures(), patience).toEqual(way.wanted);
  await second.stop();
});

test('a replay does not store frames twice that the log got again days after they had been stored', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const ingest = way.ingest();
  const writtenAt = Date.now() - 3 * DAY_MS;
  const lane = { kind: 'click', partition: 0 } as const;
  const header = {
    ...lane,
    producer_id: 'p'.repeat(26),
    frame_no: 1,
    records: 1,
    written_at: writtenAt,
  };
  const bytes = Buffer.alloc(4_096);
  const frame = bytes.subarray(0, encodeFrame(bytes, 0, header, `${testClick(writtenAt)}\n`));
  const nats = await Nats.connect({ url: way.nats.url, name: 'test', installation: defaultInstallation });
  const publish = () => nats.request(nats.names.subjectOf(lane), frame);
  const rows = async () => (await way.client.query<{ n: number }>('SELECT toUInt32(count()) AS n FROM clicks'))[0]?.n;
  await publish();
  await expect.poll(rows, patience).toBe(1);
  // As if the machine had been suspended since then.
  await way.client.command(`ALTER TABLE clicks UPDATE batch_no = ${writtenAt} WHERE 1 SETTINGS mutations_sync = 1`);
  const from = new Date().toISOString();
  await publish();
  expect((await admin('replay', '--from', from)).lines[0]).toMatch(/^0 rows stored/);
  expect(await rows()).toBe(1);
  await nats.close();
  await ingest.stop();
});

test('a replay counts and names the records that neither ClickHouse nor the log has any more', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const ingest = way.ingest();
  await keepAndStore(100);
  const from = new Date().toISOString();
  await saveClickHouse();
  await keepAndStore(60);
  await expect.poll(() => way.publisher.messagesInFlight, patience).toBe(0);
  const [{ mark }] = (await postgres.query<{ mark: number }>("SELECT mark FROM ingest.mark WHERE kind = 'click'")) as [
    { mark: number },
  ];
  await ingest.stop();
  await restoreClickHouse();
  await way.nats.kill('SIGKILL');
  await way.nats.restart({ isWiped: true });
  const second = way.ingest();
  await way.keep(40);
  await expect.poll(() => way.figures(), patience).toMatchObject({ rows: 140, distinct: 140 });
  const { lines, isFaulty } = await admin('replay', '--from', from);
  expect(isFaulty).toBe(true);
  expect(lines[0]).toMatch(/^0 rows stored/);
  expect(lines[1]).toMatch(new RegExp(`^missing: frames \\d+ to ${mark} of [0-9a-z]{26} \\(partition 0\\)$`));
  await second.stop();
});

test('a rebuild corrects cells with too many or too few rows, and with visitors that never existed', {
  tags: ['slow'],
  timeout: long,
}, async () => {
  const ingest = way.ingest();
  await keepAndStore(100);
  await way.client.command('INSERT INTO clicks_by_link SELECT * FROM clicks_by_link');
  await way.client.command(
    `INSERT INTO clicks_by_dimension (organization_id, app_id, dimension, bucket, rows, visitors)
       SELECT 'org', 'app', 'day', toStartOfDay(now('UTC'), 'UTC'), 7, uniqCombinedState(15)(number) FROM numbers(50)`,
  );
  expect((await faults()).rollup_difference).toBeGreaterThan(1);
  const today = new Date().toISOString().slice(0, 10);
  await admin('rebuild', '--from', today);
  expect(await faults()).toEqual(none);
  await keepAndStore(20);
  await ingest.stop();
});

test('a replay repeats, once, a late attribution that was lost in a restore', {
  tags: ['slow'],
  timeout: 3 * long,
}, async () => {
  const now = Date.now();
  const from = new Date(now).toISOString();
  const ids = { organization_id: newId('org', 1), app_id: newId('app', now) };
  const event = JSON.stringify({
    ...{ v: 1, ...ids, event_id: 'e', time: now, received_at: now, privacy_mode: 'no_ip' },
    sent: { name: 'bought', device_id: 'd' },
  });
  const texts = Object.fromEntries(Object.keys(installTextMax).map((name) => [name, '']));
  const install = JSON.stringify({
    ...{ v: 1, ...texts, ...ids, install_id: newId('ins', now), link_id: newId('lnk', 1), device_id: 'd', time: now },
    ...{ installed_at: now, match_type: 'none', match_guaranteed: false, confidence: 1, attributed: true },
    ...{ platform: 'ios', privacy_mode: 'no_ip' },
  });
  const rows = async () =>
    (await way.client.query('SELECT count() AS rows, sum(sign) AS events, uniqExact(link_id) AS links FROM events'))[0];
  const dying = way.ingest('learned_before:1');
  await append('event', event);
  await expect.poll(rows, patience).toEqual({ rows: 1, events: 1, links: 1 });
  await append('install', install);
  await expect.poll(() => dying.process.signalCode, patience).toBe('SIGKILL');
  await saveClickHouse();
  const second = way.ingest();
  await expect.poll(rows, patience).toEqual({ rows: 3, events: 1, links: 2 });
  await second.stop();
  // The state half a minute later.
  await postgres.execute(`UPDATE ingest.late_cursor SET cursors = '{"0": ${Date.now()}}'`);
  await restoreClickHouse();
  const third = way.ingest();
  expect((await admin('replay', '--from', from)).lines[0]).toMatch(/^0 rows stored/);
  await expect.poll(rows, patience).toEqual({ rows: 3, events: 1, links: 2 });
  expect((await admin('replay', '--from', from)).lines[0]).toBe('0 rows stored, 0 rollup cells corrected');
  expect(await faults()).toEqual(none);
  await third.stop();
});
