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

/** Events of one batch, with sequential ids. */
function batch(frame_no: number, from: number, count: number): IdUse[] {
  return Array.from({ length: count }, (_, idx) => ({
    ...{ kind: 'event' as const, app_id: 'app_x', id: `event-${from + idx}`, received_at: Date.now() },
    origin: { producer_id: 'p', frame_no, idx },
  }));
}

const firsts = (verdicts: readonly boolean[]) => verdicts.filter(Boolean).length;

/** Stores rows as previous owners would have. */
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
  'an install older than the ids loaded at startup counts once, with %s stored',
  async (_, hours) => {
    const now = Date.now();
    const [id, other] = [`install-${hours}`, `other-${hours}`];
    await store('installs', id, now - 40 * HOUR_MS);
    if (hours > 0) await store('installs', other, now - hours * HOUR_MS);
    const seen = firstSeen();
    await seen.load(now);
    expect(await seen.settle([one('install', id, now - 40 * HOUR_MS)])).toEqual([false]);
    // A new id still needs no lookup.
    const { lookups } = seen.counters;
    expect(await seen.settle([one('install', `new-${hours}`, now)])).toEqual([true]);
    expect(seen.counters.lookups).toBe(lookups);
  },
);

test('an install whose first record was lost before it was stored counts when it is sent again, after the partition is reacquired', async () => {
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

test('a late event counts once, even if the first is older than the ids loaded at startup', async () => {
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

test('an id that is reused days later counts once each time, in any order of arrival', async () => {
  const now = Date.now();
  const record = (frame_no: number, daysAgo: number): IdUse => {
    const claim = one('event', 'days-apart', now - daysAgo * 24 * HOUR_MS);
    return { ...claim, origin: { ...claim.origin, frame_no } };
  };
  const [old, young] = [record(1, 3), record(2, 0)];
  const seen = firstSeen();
  await seen.load(now);
  // A replay of the log from the beginning.
  for (const claim of [old, young, old]) expect(await seen.settle([claim])).toEqual([true]);
  expect(await seen.settle([record(3, 0), record(4, 3)])).toEqual([false, false]);
});

test('before ids are loaded at startup, the first use of an id is looked up', async () => {
  const now = Date.now();
  await store('events', 'before', now - HOUR_MS);
  expect(await firstSeen().settle([one('event', 'before', now)])).toEqual([false]);
});

test('with more ids than can be loaded at startup, each still counts once, and new ids need no lookup from the next day on', async () => {
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

test('a repeat at the same position of another partition is recognized, stored or not', async () => {
  const now = Date.now();
  const id = Array.from({ length: 9 }, (_, n) => `moved-${n}`).find((one) => partitionOf('app_x', one, 2) === 1) ?? '';
  await store('events', id, now);
  const record = one('event', id, now);
  const there = { ...record, origin: { ...record.origin, producer_id: 'stored' } };
  const group = new FirstSeenGroup({
    ...{ stored: new ClickHouseRecords(clickhouse), clock: Date.now, partitions: 2 },
    allowStrays: async () => undefined,
  });
  // Stored for partition 0.
  expect(await group.at(1).settle([there])).toEqual([false]);
  expect(await group.at(0).settle([there])).toEqual([true]);
  const recent = { ...record, id: `${id}-${id}-new` };
  const [own, other] = partitionOf('app_x', recent.id, 2) === 0 ? [0, 1] : [1, 0];
  expect(await group.at(own).settle([recent])).toEqual([true]);
  expect(await group.at(other).settle([recent])).toEqual([false]);
  expect(await group.at(own).settle([recent])).toEqual([true]);
});

test('a repeat within two batches that are not yet stored counts once, however many events they have', {
  tags: ['slow'],
  timeout: 60_000,
}, async () => {
  const seen = firstSeen();
  const [stored, formed] = [batch(1, 0, 130_000), batch(2, 130_000, 130_000)];
  expect(firsts(await seen.settle(stored))).toBe(130_000);
  expect(firsts(await seen.settle(formed))).toBe(130_000);
  const next = [...batch(3, 260_000, 10), ...batch(4, 0, 260_000)];
  expect(firsts(await seen.settle(next))).toBe(10);
  // Formed again after a crash in between, each batch is the same.
  expect(firsts(await seen.settle(stored))).toBe(130_000);
  expect(firsts(await seen.settle(formed))).toBe(130_000);
});

test('ids that are recent when a batch begins count once in it, even if that batch drops them', {
  tags: ['slow'],
}, async () => {
  const seen = firstSeen();
  for (let n = 0; n < 9; n++) {
    // The ids of the first batch follow new ids, which fill a generation sooner or later.
    const again = n === 6 || n === 8 ? batch(100 + n, 0, 30_000) : [];
    expect(firsts(await seen.settle([...batch(n, n * 30_000, 30_000), ...again]))).toBe(30_000);
  }
});

test('partitions that share filters do not affect each other when one reloads its ids or has loaded none', async () => {
  const now = Date.now();
  const partitions = 2;
  const filters = newIdFilters();
  const [zero, first] = [0, 1].map((partition) => firstSeen({ partition, partitions, filters }));
  const own = (partition: number) => (id: string) => partitionOf('app_x', id, partitions) === partition;
  const ids = Array.from({ length: 40 }, (_, n) => `shared-${n}`);
  const [ofZero, ofFirst] = [ids.filter(own(0)), ids.filter(own(1))];
  await zero?.load(now);
  for (const id of ids) await store('events', id, now);
  // Stored by other owners, after this process acquired the first partition and before it acquired the second.
  await first?.load(now);
  const lookups = zero?.counters.lookups ?? 0;
  expect(await first?.settle(ofFirst.map((id) => one('event', id, now)))).toEqual(ofFirst.map(() => false));
  expect(await zero?.settle([one('event', 'of-zero-0', now)])).toEqual([true]);
  expect(zero?.counters.lookups).toBe(lookups);
  await zero?.load(now);
  expect(await zero?.settle(ofZero.map((id) => one('event', id, now)))).toEqual(ofZero.map(() => false));
});

test('an id stored in its former partition, from when there were fewer partitions, counts once', async () => {
  const now = Date.now();
  const ids = Array.from({ length: 10 }, (_, n) => `moved-${n}`);
  for (const id of ids) await store('events', id, now);
  const seen = firstSeen({ partition: 0, partitions: 2 });
  await seen.load(now);
  expect(await seen.settle(ids.map((id) => one('event', id, now)))).toEqual(ids.map(() => false));
});

test('the limit of ids loaded at startup applies to each partition, not to all together', async () => {
  const now = Date.now();
  const [counted] = await clickhouse.query<{ n: number }>('SELECT count() AS n FROM events');
  const loadedIdsMax = Math.ceil(Number(counted?.n) / 2);
  expect(loadedIdsMax).toBeGreaterThan(2);
  const seen = firstSeen({ partition: 0, partitions: 2, loadedIdsMax });
  await seen.load(now);
  expect([seen.counters.loads_skipped, seen.counters.loaded > loadedIdsMax]).toEqual([0, true]);
});
