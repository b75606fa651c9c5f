import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { HOUR_MS } from '#common/durations.ts';
import { partitionOf } from '#common/log/partition.ts';
import { clickhouseForTest, type TestDatabase } from '#testing/servers.ts';
import { ClickHouseRecords } from './clickhouse-records.ts';
import { FirstSeen, type FirstSeenOptions, type IdUse, newIdFilters } from './first-seen.ts';
import { FirstSeenGroup } from './first-seen-group.ts';

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

function firstSeen(options: Partial<FirstSeenOptions> = {}): FirstSeen {
  const alone = { partition: 0, partitions: 1, filters: newIdFilters() };
  return new FirstSeen({ stored: new ClickHouseRecords(clickhouse), clock: Date.now, ...alone, ...options });
}

/** Events of one batch, each with the id of its number. */
function batch(frame_no: number, from: number, count: number): IdUse[] {
  return Array.from({ length: count }, (_, idx) => ({
    ...{ kind: 'event' as const, app_id: 'app_x', id: `event-${from + idx}`, received_at: Date.now() },
    origin: { producer_id: 'p', frame_no, idx },
  }));
}

const firsts = (verdicts: readonly boolean[]) => verdicts.filter(Boolean).length;

/** Puts rows where earlier owners have stored them. */
async function store(table: 'events' | 'installs', id: string, receivedMs: number): Promise<void> {
  const [idColumn, times] = table === 'events' ? ['event_id', 'time, received_at'] : ['install_id', 'time'];
  const at = 'fromUnixTimestamp64Milli({at:Int64})';
  await clickhouse.command(
    `INSERT INTO ${table} (app_id, ${idColumn}, producer_id, frame_no, idx, ${times})
     SELECT 'app_x', {id:String}, 'stored', 1, 0, ${table === 'events' ? `${at}, ${at}` : at}`,
    { id, at: receivedMs },
  );
}

const one = (kind: IdUse['kind'], id: string, received_at: number): IdUse => ({
  ...{ kind, app_id: 'app_x', id, received_at, origin: { producer_id: 'later', frame_no: 1, idx: 0 } },
});

test.each([['nothing younger', 0] as const, ['another that is younger', 20] as const])(
  'an install older than the ids that are read at the start counts once, with %s stored',
  async (_, hours) => {
    const now = Date.now();
    const [id, other] = [`install-${hours}`, `other-${hours}`];
    await store('installs', id, now - 40 * HOUR_MS);
    if (hours > 0) await store('installs', other, now - hours * HOUR_MS);
    const seen = firstSeen();
    await seen.load(now);
    expect(await seen.settle([one('install', id, now - 40 * HOUR_MS)])).toEqual([false]);
    // A new one is still not worth a question.
    const { lookups } = seen.counters;
    expect(await seen.settle([one('install', `new-${hours}`, now)])).toEqual([true]);
    expect(seen.counters.lookups).toBe(lookups);
  },
);

test('an install whose first record was lost before it was stored counts when it is sent again, once the partition is taken again', async () => {
  const now = Date.now();
  const seen = firstSeen();
  await seen.load(now);
  const [lost] = batch(1, 900_000, 1);
  if (lost === undefined) throw new Error('the batch is empty');
  expect(await seen.settle([{ ...lost, kind: 'install' }])).toEqual([true]);
  expect(await seen.settle([one('install', lost.id, now)])).toEqual([false]);
  await seen.load(now);
  expect(await seen.settle([one('install', lost.id, now)])).toEqual([true]);
});

test('a late event counts once, even if its first is older than the ids that are read at the start', async () => {
  const now = Date.now();
  await store('events', 'late', now - 40 * HOUR_MS);
  await store('events', 'young', now - HOUR_MS);
  const seen = firstSeen();
  await seen.load(now);
  const verdicts = await seen.settle([
    one('event', 'late', now - 20 * HOUR_MS),
    one('event', 'late-and-new', now - 20 * HOUR_MS),
    one('event', 'young', now),
  ]);
  expect(verdicts).toEqual([false, true, false]);
});

test('an id that is used again days later counts once each time, in any order of arrival', async () => {
  const now = Date.now();
  const record = (frame_no: number, daysAgo: number): IdUse => {
    const claim = one('event', 'days-apart', now - daysAgo * 24 * HOUR_MS);
    return { ...claim, origin: { ...claim.origin, frame_no } };
  };
  const [old, young] = [record(1, 3), record(2, 0)];
  const seen = firstSeen();
  await seen.load(now);
  // The log is read again from the beginning.
  for (const claim of [old, young, old]) expect(await seen.settle([claim])).toEqual([true]);
  expect(await seen.settle([record(3, 0), record(4, 3)])).toEqual([false, false]);
});

test('before any ids are read at the start, the first of an id is looked up', async () => {
  const now = Date.now();
  await store('events', 'before', now - HOUR_MS);
  expect(await firstSeen().settle([one('event', 'before', now)])).toEqual([false]);
});

test('more ids than can be read at the start still count once each, and new ones need no look-up from the next day on', async () => {
  const now = Date.now();
  const ids = Array.from({ length: 20 }, (_, n) => `many-${n}`);
  for (const id of ids) await store('events', id, now - HOUR_MS);
  const seen = firstSeen({ clock: () => now, loadedIdsMax: 10 });
  await seen.load(now);
  expect(await seen.settle(ids.map((id) => one('event', id, now)))).toEqual(ids.map(() => false));
  expect(await seen.settle([one('event', 'new-today', now)])).toEqual([true]);
  const { lookups } = seen.counters;
  expect(await seen.settle([one('event', 'new-tomorrow', now + 26 * HOUR_MS)])).toEqual([true]);
  expect(seen.counters.lookups).toBe(lookups);
});

test('a repeat at the same place of another partition is a repeat, stored or not', async () => {
  const now = Date.now();
  const id = Array.from({ length: 9 }, (_, n) => `moved-${n}`).find((one) => partitionOf('app_x', one, 2) === 1) ?? '';
  await store('events', id, now);
  const record = one('event', id, now);
  const there = { ...record, origin: { ...record.origin, producer_id: 'stored' } };
  const group = new FirstSeenGroup({
    ...{ stored: new ClickHouseRecords(clickhouse), clock: Date.now, partitions: 2 },
    allowStrays: async () => undefined,
  });
  // It is stored of partition 0.
  expect(await group.at(1).settle([there])).toEqual([false]);
  expect(await group.at(0).settle([there])).toEqual([true]);
  const recent = { ...record, id: `${id}-${id}-new` };
  const [own, other] = partitionOf('app_x', recent.id, 2) === 0 ? [0, 1] : [1, 0];
  expect(await group.at(own).settle([recent])).toEqual([true]);
  expect(await group.at(other).settle([recent])).toEqual([false]);
  expect(await group.at(own).settle([recent])).toEqual([true]);
});

test('a repeat within two batches that are not stored yet counts once, however many events they have', {
  tags: ['slow'],
  timeout: 60_000,
}, async () => {
  const seen = firstSeen();
  const [stored, formed] = [batch(1, 0, 130_000), batch(2, 130_000, 130_000)];
  expect(firsts(await seen.settle(stored))).toBe(130_000);
  expect(firsts(await seen.settle(formed))).toBe(130_000);
  const next = [...batch(3, 260_000, 10), ...batch(4, 0, 260_000)];
  expect(firsts(await seen.settle(next))).toBe(10);
  // Formed again after a crash between, each is what it was.
  expect(firsts(await seen.settle(stored))).toBe(130_000);
  expect(firsts(await seen.settle(formed))).toBe(130_000);
});

test('ids that are recent when a batch begins count once in it, even if they are dropped with that batch', {
  tags: ['slow'],
}, async () => {
  const seen = firstSeen();
  for (let n = 0; n < 9; n++) {
    // Behind new ids, as many as fill a generation sooner or later, stand those of the first batch.
    const again = n === 6 || n === 8 ? batch(100 + n, 0, 30_000) : [];
    expect(firsts(await seen.settle([...batch(n, n * 30_000, 30_000), ...again]))).toBe(30_000);
  }
});

test('partitions that share filters do not affect each other when one reads its ids again or has read none', async () => {
  const now = Date.now();
  const partitions = 2;
  const filters = newIdFilters();
  const [zero, first] = [0, 1].map((partition) => firstSeen({ partition, partitions, filters }));
  const own = (partition: number) => (id: string) => partitionOf('app_x', id, partitions) === partition;
  const ids = Array.from({ length: 40 }, (_, n) => `shared-${n}`);
  const [ofZero, ofFirst] = [ids.filter(own(0)), ids.filter(own(1))];
  await zero?.load(now);
  for (const id of ids) await store('events', id, now);
  // Stored by others, after the one was taken and before the other was.
  await first?.load(now);
  const lookups = zero?.counters.lookups ?? 0;
  expect(await first?.settle(ofFirst.map((id) => one('event', id, now)))).toEqual(ofFirst.map(() => false));
  expect(await zero?.settle([one('event', 'of-zero-0', now)])).toEqual([true]);
  expect(zero?.counters.lookups).toBe(lookups);
  await zero?.load(now);
  expect(await zero?.settle(ofZero.map((id) => one('event', id, now)))).toEqual(ofZero.map(() => false));
});

test('an id that is stored in the partition it belonged to when there were fewer partitions counts once', async () => {
  const now = Date.now();
  const ids = Array.from({ length: 10 }, (_, n) => `moved-${n}`);
  for (const id of ids) await store('events', id, now);
  const seen = firstSeen({ partition: 0, partitions: 2 });
  await seen.load(now);
  expect(await seen.settle(ids.map((id) => one('event', id, now)))).toEqual(ids.map(() => false));
});

test('the limit of ids that are read at the start applies to each partition, not to all together', async () => {
  const now = Date.now();
  const [counted] = await clickhouse.query<{ n: number }>('SELECT count() AS n FROM events');
  const loadedIdsMax = Math.ceil(Number(counted?.n) / 2);
  expect(loadedIdsMax).toBeGreaterThan(2);
  const seen = firstSeen({ partition: 0, partitions: 2, loadedIdsMax });
  await seen.load(now);
  expect([seen.counters.loads_skipped, seen.counters.loaded > loadedIdsMax]).toEqual([0, true]);
});
