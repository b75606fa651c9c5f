import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { Journal } from '#common/journal/journal.ts';
import { nodeSystem } from '#common/journal/system.ts';
import { installTextMax } from '#common/log/install-record.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { keepLogStream } from '#common/log/log-stream.ts';
import type { RecordKind } from '#common/log/record.ts';
import { Nats } from '#common/stores/nats.ts';
import { Publisher } from '#publisher/publisher.ts';
import { PipelineHarness, testClick } from './testing/pipeline-harness.ts';

let way: PipelineHarness;
let nats: Nats;
const patience = { timeout: 20_000 };
const firstMs = Date.now();

beforeAll(async () => {
  way = await PipelineHarness.start();
  nats = await Nats.connect({ url: way.nats.url, name: 'test', installation: defaultInstallation });
  for (const table of ['clicks', 'clicks_by_link', 'clicks_by_dimension']) {
    const time = table === 'clicks' ? 'toDateTime(time)' : 'bucket';
    await way.client.command(`ALTER TABLE ${table} MODIFY TTL ${time} + toIntervalDay(90)`);
  }
});
afterAll(async () => {
  await nats?.close();
  await way?.stop();
});

/** Clocks of machines, as their difference from the right one at some moments since the start. */
const clocks: Record<string, (step: number) => number> = {
  'at 1970': () => DAY_MS - Date.now(),
  'at 2023': () => Date.UTC(2023, 2, 1) - Date.now(),
  'a month behind': () => -30 * DAY_MS,
  'two hours ahead': () => 2 * HOUR_MS,
  'at 2037': () => Date.UTC(2037, 0, 1) - Date.now(),
  'that jumps back and forth': (step) => ([-1_000, 800, 0, -30][step % 4] ?? 0) * DAY_MS,
};

test.each(Object.entries(clocks))(
  'records of a machine with a clock %s are stored with their right times, and its journal drains',
  async (name, offAt) => {
    let step = 0;
    const root = join(way.folder, name.replaceAll(' ', '-'));
    const now = () => Date.now() + offAt(step);
    const system = { ...nodeSystem, time: { ...nodeSystem.time, now } };
    const options = { root, slot: 'edge', segmentBytes: 100_000, bytesMax: 1e9, sync: 'after_answer' } as const;
    const before = await way.figures();
    const publisher = new Publisher({
      ...{ root, machine: name, nats, system, onDamage: () => undefined, log: () => undefined },
      ensureLog: () => keepLogStream(nats, { bytesMax: 1_073_741_824, replicas: 1 }, () => undefined),
    });
    const ingest = await way.ingestHere();
    ingest.start();
    await publisher.start();
    const journal = await Journal.open(options, system);
    try {
      for (; step < 20; step++) {
        await new Promise<void>((done, fail) => {
          const waiter = { committed: done, refused: () => fail(new Error('refused')) };
          journal.append(journal.lane('click', 0), testClick(now()), waiter);
        });
      }
      await expect.poll(async () => (await way.figures()).rows, patience).toBe(before.rows + 20);
      await journal.close();
      await way.client.command('OPTIMIZE TABLE clicks FINAL');
      // Rows become visible shortly before their rollups.
      await expect
        .poll(() => way.figures(), patience)
        .toMatchObject({ rows: before.rows + 20, dead_letters: 0, rollup_difference: 0 });
      const [times] = await way.client.query<{ earliest: number; latest: number }>(
        'SELECT min(toUnixTimestamp64Milli(time)) AS earliest, max(toUnixTimestamp64Milli(time)) AS latest FROM clicks',
      );
      expect(Number(times?.latest)).toBeLessThanOrEqual(Date.now());
      expect(Number(times?.earliest)).toBeGreaterThanOrEqual(firstMs - 60_000);
      expect(ingest.owners[0]?.reader?.counters.wrong_clocks).toBeGreaterThan(0);
      const producers = () => readdirSync(join(root, 'edge')).filter((file) => !file.startsWith('.'));
      await expect.poll(producers, patience).toEqual([]);
      await expect.poll(() => ingest.chores.clocksAhead.has(name), patience).toBe(true);
    } finally {
      await publisher.stop();
      await ingest.stop();
    }
  },
);

test('a record that ClickHouse would drop at once is stored with the time of its frame, or counted as too old', async () => {
  await way.client.command('ALTER TABLE events MODIFY TTL toDateTime(time) + toIntervalDay(30)');
  await way.client.command('ALTER TABLE installs MODIFY TTL toDateTime(time) + toIntervalDay(90)');
  const ingest = await way.ingestHere();
  ingest.start();
  const before = await way.figures();
  const boot = Date.UTC(2023, 2, 1);
  const ids = { v: 1, organization_id: newId('org', 1), app_id: newId('app', 2), privacy_mode: 'no_ip' };
  const texts = Object.fromEntries(Object.keys(installTextMax).map((name) => [name, '']));
  const install = {
    ...{ ...texts, ...ids, install_id: newId('ins', boot), time: boot, installed_at: boot, platform: 'ios' },
    ...{ match_type: 'none', match_guaranteed: false, confidence: 0, attributed: false },
  };
  const event = (event_id: string, ageMs: number) => ({
    ...{ ...ids, event_id, time: Date.now() - ageMs, received_at: Date.now(), sent: { name: 'a', device_id: 'd' } },
  });
  const append = (kind: RecordKind, json: string) =>
    new Promise<void>((committed, fail) => {
      const waiter = { committed, refused: () => fail(new Error('refused')) };
      way.journal.append(way.journal.lane(kind, 0), json, waiter);
    });
  try {
    // The clock jumped between the record and its frame; an install may also be kept since an earlier request.
    await append('click', testClick(boot));
    await append('install', JSON.stringify(install));
    for (const [id, age] of [
      ['new', 29 * DAY_MS],
      ['old', 60 * DAY_MS],
    ] as const)
      await append('event', JSON.stringify(event(id, age)));
    const rows = async (table: string) =>
      (await way.client.query<{ n: number }>(`SELECT count() AS n FROM ${table}`))[0]?.n;
    await expect.poll(() => rows('dead_letters'), patience).toBe(before.dead_letters + 1);
    await expect.poll(() => rows('clicks'), patience).toBe(before.rows + 1);
    for (const table of ['clicks', 'installs', 'events']) await way.client.command(`OPTIMIZE TABLE ${table} FINAL`);
    expect([await rows('clicks'), await rows('installs'), await rows('events')]).toEqual([before.rows + 1, 1, 1]);
    expect(await way.client.query('SELECT kind, reason FROM dead_letters')).toEqual([
      { kind: 'event', reason: 'too_old' },
    ]);
  } finally {
    await ingest.stop();
  }
});
