import { join } from 'node:path';
import { Command } from 'commander';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { addRevisionCommands } from '#api/admin/revision.ts';
import { audit, auditHour } from '#clickhouse/queries/audit.ts';
import { erasePerson } from '#clickhouse/queries/erase.ts';
import { ledgerFrom } from '#clickhouse/queries/missing-rows.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { Journal } from '#common/journal/journal.ts';
import { installTextMax } from '#common/log/install-record.ts';
import type { RecordKind } from '#common/log/record.ts';
import { Postgres } from '#common/stores/postgres.ts';
import type { Ingest } from './ingest.ts';
import { PipelineHarness, testClick, testOrganizationId } from './testing/pipeline-harness.ts';

let way: PipelineHarness;
let postgres: Postgres;
let ingest: Ingest;
const patience = { timeout: 45_000, interval: 250 };
const app_id = newId('app', 2);

beforeEach(async () => {
  way = await PipelineHarness.start();
  postgres = new Postgres({ url: way.postgres.url, name: 'test', connectionsMax: 2 });
  ingest = await way.ingestHere();
  ingest.start();
  await storeAll();
});
afterEach(async () => {
  await ingest.stop();
  await postgres.close();
  await way.stop();
});

const ids = { organization_id: testOrganizationId, app_id };
const eventAt = (event_id: string, time: number, more: object = {}) =>
  JSON.stringify({
    ...{ v: 1, ...ids, event_id, time, received_at: Date.now(), privacy_mode: 'no_ip', ...more },
    sent: { name: 'bought', device_id: 'd' },
  });
const installOf = (device_id: string) => {
  const texts = Object.fromEntries(Object.keys(installTextMax).map((name) => [name, '']));
  const [time, link_id] = [Date.now(), newId('lnk', 1)];
  return JSON.stringify({
    ...{ v: 1, ...texts, ...ids, install_id: newId('ins', time), link_id, device_id, time, installed_at: time },
    ...{ match_type: 'none', match_guaranteed: false, confidence: 1, attributed: true, platform: 'ios' },
    ...{ privacy_mode: 'no_ip' },
  });
};

async function append(journal: Journal, kind: RecordKind, json: string): Promise<void> {
  await new Promise<void>((committed, fail) => {
    journal.append(journal.lane(kind, 0), json, { committed, refused: () => fail(new Error('refused')) });
  });
}

const count = async (table: string, where = '1') =>
  Number((await way.client.query<{ n: number }>(`SELECT count() AS n FROM ${table} WHERE ${where}`))[0]?.n);

/** Records of each kind: of two producers, one sent twice, one refused, one attributed later, some of another month. */
async function storeAll(): Promise<void> {
  await way.keep(40);
  const slot = { root: join(way.folder, 'journal'), slot: 'edge-1', segmentBytes: 100_000, bytesMax: 1e9 };
  const other = await Journal.open({ ...slot, sync: 'after_answer' });
  for (let n = 0; n < 10; n++) await append(other, 'click', testClick(Date.now()));
  await append(other, 'click', 'no click');
  await other.close();
  for (const at of [0, 0, 45 * DAY_MS]) await append(way.journal, 'event', eventAt(`e${at}`, Date.now() - at));
  await append(way.journal, 'event', eventAt('late', Date.now()));
  for (const device of ['d', 'd1', 'd2']) await append(way.journal, 'install', installOf(device));
  await expect.poll(() => count('events', 'is_learned'), patience).toBeGreaterThan(0);
  await expect.poll(() => count('clicks'), patience).toBe(50);
  await expect.poll(() => count('dead_letters'), patience).toBe(1);
  await expect.poll(async () => (await found()).lost, patience).toBe(0);
}

/** What the audit of all days, and that of an hour, find with the ledger alone. */
async function found() {
  const range = { from_ms: Date.now() - 3_000 * DAY_MS, to_ms: Date.now() - 3_000 * DAY_MS };
  const report = await audit(way.client, range, undefined, { ledger: await ledgerFrom(postgres) });
  const hour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS - 1_000 * DAY_MS;
  const { figures } = await auditHour(way.client, hour, { ledger: await ledgerFrom(postgres, hour) });
  expect(figures.lost).toBe(report.lost);
  return { lost: report.lost, expired: report.expired, tables: report.faults.map(({ table }) => table) };
}

const remove = (table: string, where: string) =>
  way.client.command(`ALTER TABLE ${table} DELETE WHERE ${where}`, {}, { mutations_sync: 2 });

test('every stored record is in the ledger once, whatever its kind, and repeats and late attributions are not', async () => {
  const lines = await ledgerFrom(postgres);
  const sums = new Map<string, number>();
  for (const { raw_table, rows } of lines) sums.set(raw_table, (sums.get(raw_table) ?? 0) + rows);
  expect(Object.fromEntries(sums)).toEqual({ clicks: 50, dead_letters: 1, events: 3, installs: 3 });
  expect(lines.filter(({ raw_table }) => raw_table === 'events')).toHaveLength(2);
  expect(await found()).toEqual({ lost: 0, expired: 0, tables: [] });
});

test('the audit finds all records of a producer, of a kind, and of a month that vanished', async () => {
  const [least] = await way.client.query<{ producer_id: string }>(
    'SELECT producer_id FROM clicks GROUP BY producer_id ORDER BY count() LIMIT 1',
  );
  await remove('clicks', `producer_id = '${least?.producer_id}'`);
  expect(await found()).toEqual({ lost: 10, expired: 0, tables: ['clicks'] });
  await remove('installs', '1');
  expect(await found()).toMatchObject({ lost: 13, expired: 0 });
  const [{ month } = { month: '' }] = await way.client.query<{ month: string }>(
    'SELECT _partition_id AS month FROM events ORDER BY time LIMIT 1',
  );
  await way.client.command(`ALTER TABLE events DROP PARTITION ID '${month}'`);
  expect(await found()).toEqual({
    lost: 14,
    expired: 0,
    tables: expect.arrayContaining(['clicks', 'events', 'installs']),
  });
});

test('what retention removes, and what an erasure blanks, is not lost', async () => {
  await erasePerson(
    way.client,
    { organization_id: testOrganizationId, app_id: '' },
    { device: new Set(['d']), install: new Set(), user: new Set(), click: new Set() },
    async (days) => days,
  );
  expect(await count('events', "device_id != ''")).toBe(0);
  expect(await found()).toEqual({ lost: 0, expired: 0, tables: [] });
  await way.client.command('ALTER TABLE events MODIFY TTL toDateTime(time) + toIntervalDay(30)');
  await way.client.command('OPTIMIZE TABLE events FINAL');
  await expect.poll(() => count('events', 'NOT is_learned'), patience).toBe(2);
  expect(await found()).toEqual({ lost: 0, expired: 1, tables: [] });
  await ingest.chores.forgetExpired();
  expect(await found()).toEqual({ lost: 0, expired: 1, tables: [] });
  for (const table of ['clicks', 'installs', 'events', 'matches', 'dead_letters'])
    await way.client.command(`ALTER TABLE ${table} REMOVE TTL`);
  expect(await found()).toEqual({ lost: 1, expired: 0, tables: ['events'] });
});

test('records that a replay stores again are no longer lost, and count once in the ledger', async () => {
  await remove('clicks', '1');
  await remove('installs', '1');
  expect(await found()).toMatchObject({ lost: 53 });
  const program = new Command('admin').exitOverride().configureOutput({ writeErr: () => undefined });
  const printed: string[] = [];
  addRevisionCommands(program, {
    ...{ postgres: () => postgres, clickhouse: () => way.client, nowMs: Date.now, onFaults: () => undefined },
    reachClickHouse: () => Promise.resolve(),
    print: (line) => void printed.push(line),
  });
  await program.parseAsync(['node', 'admin', 'replay', '--from', new Date(Date.now() - HOUR_MS).toISOString()]);
  expect(printed.join()).toContain('53 rows stored');
  expect(await found()).toEqual({ lost: 0, expired: 0, tables: [] });
  await remove('clicks', 'frame_no = 1');
  expect((await found()).lost).toBeGreaterThan(0);
});

test('rows that a restored Postgres does not know are counted from ClickHouse', async () => {
  await ingest.stop();
  for (const table of ['ledger', 'mark', 'last_batch', 'batch', 'checkpoint', 'lease'])
    await postgres.execute(`DELETE FROM ingest.${table}`);
  ingest = await way.ingestHere();
  ingest.start();
  await way.keep(5);
  await expect.poll(() => count('clicks'), patience).toBe(55);
  await expect.poll(async () => (await ledgerFrom(postgres)).length, patience).toBeGreaterThan(3);
  expect(await found()).toMatchObject({ lost: 0 });
  await remove('clicks', '1');
  await expect.poll(async () => (await found()).lost, patience).toBe(55);
});
