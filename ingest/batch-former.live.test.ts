/**
 * Many large batches of several partitions, formed in turn.
 *
 * @module-tag slow
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { openCountryDatabase } from '#common/country-database.ts';
import { newId } from '#common/ids.ts';
import { eventJson, eventPrefix } from '#common/log/event-record.ts';
import { encodeFrame, readFrame } from '#common/log/frame.ts';
import { partitionOf } from '#common/log/partition.ts';
import { clickhouseForTest, type TestDatabase } from '#testing/servers.ts';
import { Attribution } from './attribution/attribution.ts';
import { ClickHouseRecords } from './attribution/clickhouse-records.ts';
import { FirstSeen, newIdFilters } from './attribution/first-seen.ts';
import { InstallLookup } from './attribution/install-lookup.ts';
import { BatchFormer } from './batch-former.ts';
import { Enrichment } from './enrichment.ts';
import type { LogFrame } from './formed-batch.ts';
import { Visitors } from './visitors.ts';

const partitions = 2;
const frameEvents = 500;
const [organization_id, app_id] = [newId('org', 1), newId('app', 1)];

let database: TestDatabase;
let clickhouse: ClickHouse;
beforeAll(async () => {
  database = await clickhouseForTest();
  clickhouse = new ClickHouse({ url: database.url });
});
afterAll(async () => {
  await clickhouse.close();
  await database.stop();
});

function former(): BatchFormer {
  const seen = { stored: new ClickHouseRecords(clickhouse), clock: Date.now, partitions, filters: newIdFilters() };
  const countries = openCountryDatabase('');
  const visitors = new Visitors(() => '');
  return new BatchFormer({
    enrichment: new Enrichment({ countries, visitors }),
    visitors,
    days: { has: () => true, prepare: async () => undefined },
    attribution: new Attribution({
      firstSeen: [0, 1].map((partition) => new FirstSeen({ ...seen, partition })),
      installs: new InstallLookup(null, new ClickHouseRecords(clickhouse)),
      clicks: { of: async () => new Map() },
      countries,
    }),
  });
}

function eventOf(event_id: string): string {
  const now = Date.now();
  const origin = { organization_id, app_id, received_at: now, ip: '', privacy_mode: 'no_ip' as const };
  const decision = { event_id, time: now, revenue_amount: '', revenue_currency: '', is_conversion: false };
  return eventJson(
    eventPrefix({ ...origin, defaults: {} }),
    { ...decision, is_id_made: false, linkFields: '' },
    '{"name":"open","user_id":"u"}',
  );
}

let frameNo = 0;
function framesOf(partition: number, ids: readonly string[]): LogFrame[] {
  const frames: LogFrame[] = [];
  for (let from = 0; from < ids.length; from += frameEvents) {
    const payload = ids
      .slice(from, from + frameEvents)
      .map((id) => `${eventOf(id)}\n`)
      .join('');
    const bytes = Buffer.alloc(64 + 3 * payload.length);
    const records = Math.min(frameEvents, ids.length - from);
    const place = { kind: 'event', partition, producer_id: 'p'.repeat(26), frame_no: ++frameNo } as const;
    const length = encodeFrame(bytes, 0, { ...place, records, written_at: Date.now() }, payload);
    const read = readFrame(bytes, 0);
    if (read.state !== 'frame') throw new Error(read.state);
    frames.push({ header: read.header, bytes: bytes.subarray(0, length), streamTime: 1 });
  }
  return frames;
}

/** New ids that belong to the partition. */
function idsOf(partition: number, name: string, count: number): string[] {
  const ids: string[] = [];
  for (let n = 0; ids.length < count; n++) {
    if (partitionOf(app_id, `${name}-${n}`, partitions) === partition) ids.push(`${name}-${n}`);
  }
  return ids;
}

test('a repeat of an event that waits in a batch is not counted, however many batches another partition forms in the meantime', async () => {
  const batches = former();
  for (const partition of [0, 1]) await batches.begin(partition, Date.now());
  const order = idsOf(0, 'order', 1);
  expect((await batches.form({ partition: 0, batch_no: 1 }, framesOf(0, order))).rows).toBe(1);
  for (let n = 0; n < 9; n++) {
    expect(
      (await batches.form({ partition: 1, batch_no: n + 1 }, framesOf(1, idsOf(1, `other-${n}`, 20_000)))).rows,
    ).toBe(20_000);
  }
  await batches.begin(1, Date.now());
  expect((await batches.form({ partition: 0, batch_no: 2 }, framesOf(0, [...order, ...idsOf(0, 'new', 3)]))).rows).toBe(
    3,
  );
});
