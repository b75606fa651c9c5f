/**
 * Runs the same random operations on the simulated Postgres and on a real server, and compares the outcomes.
 *
 * @module-tag slow
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ledgerFrom } from '#clickhouse/queries/missing-rows.ts';
import { DAY_MS } from '#common/durations.ts';
import type { LaneMarks } from '#common/log/marks.ts';
import { Postgres } from '#common/stores/postgres.ts';
import type { BatchEntry, Checkpoints, FrameRows, Lease, LedgerLine } from '#ingest/checkpoints.ts';
import { PostgresCheckpoints } from '#ingest/postgres-checkpoints.ts';
import { SeededRandom } from '#testing/seeded-random.ts';
import { postgresForTest, type TestPostgres } from '#testing/servers.ts';
import { simulated } from './conformance.ts';
import { Machine } from './machine.ts';
import { Scheduler } from './scheduler.ts';
import { SimulatedPostgres } from './simulated-postgres.ts';

const seed = 16;
const operations = 400;
const partitions = 2;
const leaseSeconds = 600;
/** So that a released lease has expired by the next operation. */
const pauseMs = 5;

let database: TestPostgres;
let postgres: Postgres;
beforeEach(async () => {
  database = await postgresForTest();
  postgres = new Postgres({ url: database.url, name: 'test', connectionsMax: 2 });
});
afterEach(async () => {
  await postgres.close();
  await database.stop();
});

async function outcomeOf(call: () => Promise<unknown>): Promise<unknown> {
  try {
    return { value: sorted(await call()) };
  } catch (error) {
    return { error: error instanceof Error ? error.name : error };
  }
}

/** Sorts lists, and drops `updatedAt`, which only the simulated server reports. */
function sorted(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  return value
    .map(({ updatedAt: _, ...rest }: { updatedAt?: number }) => rest)
    .sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
}

const request = { replay_from: 7, days_from: null, days_to: null };

/** Requests a replay, as `admin -- replay` does. */
async function requestReplay(): Promise<void> {
  await postgres.execute(
    `INSERT INTO ingest.revision (partition, replay_from)
     SELECT partition, 7 FROM (SELECT partition FROM ingest.lease UNION SELECT partition FROM ingest.checkpoint) AS known
     ON CONFLICT (partition) DO UPDATE SET replay_from = 7, done_at = NULL`,
  );
}

test('the simulated Postgres stores leases, batches, marks and requests as the real one does', async () => {
  const random = new SeededRandom(seed);
  const scheduler = new Scheduler(seed);
  const machine = new Machine('machine', scheduler, Date.now());
  const server = new SimulatedPostgres(scheduler, Date.now());
  const twin = server.checkpointsOf(machine.start('test'), machine);
  const real = new PostgresCheckpoints(postgres);
  const same = async (what: string, operation: (checkpoints: Checkpoints) => Promise<unknown>) => {
    await scheduler.run(scheduler.now + pauseMs);
    const outcome = await outcomeOf(() => operation(real));
    expect({ what, outcome: await outcomeOf(() => simulated(scheduler, () => operation(twin))) }).toEqual({
      what,
      outcome,
    });
    return outcome as { readonly value?: unknown };
  };
  const leases = Array.from({ length: partitions }, (): Lease[] => []);
  const begun = Array.from({ length: partitions }, () => 0);
  const seen = new Set<string>();

  for (let at = 0; at < operations; at++) {
    const partition = random.between(0, partitions - 1);
    const known = leases[partition] ?? [];
    // Usually the current lease.
    const lease = random.next() < 0.9 ? known.at(-1) : known[random.between(0, known.length - 1)];
    const last = begun[partition] ?? 0;
    const batchNo = Math.max(1, last + random.pick([-1, 0, 1, 1, 1, 2]));
    const lane = { producer_id: `producer-${random.between(1, 4)}`, kind: 'click', partition } as const;
    const mark: LaneMarks = { ...lane, mark: random.between(1, 50), ahead: random.next() < 0.5 ? [] : [[60, 70]] };
    const frames = [{ producer_id: lane.producer_id, kind: lane.kind, from: at, to: at + 3 }];
    const parts = [{ table: 'clicks', partition: '202611', rows: 4, time_from: at, time_to: at + 9 }];
    const byFrame = [0, 1].map((n) => ({
      ...lane,
      ...parts[0],
      rows_again: 0,
      frame_no: at + n,
    })) as unknown as FrameRows[];
    const batch_from = random.pick([batchNo, batchNo, batchNo + DAY_MS]);
    const lines = [
      { ...parts[0], rows: 2, rows_again: random.between(0, 2), batch_from, batch_to: batch_from + 1 },
    ] as readonly LedgerLine[];
    const some = () => (random.next() < 0.5 ? lines : []);
    const of = { is_partial: false, is_again: random.next() < 0.5, stored: [], gone: some() };
    const entry: BatchEntry = { batch_no: batchNo, frames, parts, stream_time: at, ...of };
    const what = lease === undefined ? 'acquire' : random.pick(operationNames);
    if (lease === undefined || what === 'acquire') {
      const owner = random.pick(['one', 'two']);
      const { value } = await same(what, (on) => on.acquire(partition, owner, leaseSeconds));
      if (value !== undefined) known.push(value as Lease);
    } else if (what === 'release') await same(what, (on) => on.release(lease));
    else if (what === 'renew') {
      const decidedNo = random.pick([0, batchNo - 1, batchNo]);
      await same(what, (on) => on.renew(lease, leaseSeconds, decidedNo));
    } else if (what === 'begin') {
      const previousNo = random.next() < 0.9 ? last : last + 1;
      const outcome = await same(what, (on) => on.begin(lease, entry, previousNo));
      if ('value' in outcome) begun[partition] = batchNo;
      seen.add('value' in outcome ? 'begun' : 'not begun');
    } else if (what === 'commit') {
      const outcome = await same(what, (on) => on.commit(lease, batchNo, at, [mark], [batchNo - 1]));
      seen.add('value' in outcome ? 'committed' : 'not committed');
    } else if (what === 'discard') await same(what, (on) => on.discard(lease, batchNo));
    else if (what === 'keepPartial') await same(what, (on) => on.keepPartial(lease, batchNo, byFrame));
    else if (what === 'learn') {
      const newestNo = Math.max(batchNo, last) + 1;
      const learned = { ...entry, is_partial: true, is_again: false, stored: byFrame, gone: [] };
      const outcome = await same(what, (on) => on.learn(lease, learned, newestNo, lines));
      if ('value' in outcome) begun[partition] = newestNo;
    } else if (what === 'moveMarks') await same(what, (on) => on.moveMarks(lease, [mark]));
    else if (what === 'recallMarks') await same(what, (on) => on.recallMarks(lease, [lane]));
    else if (what === 'reviseDone')
      await same(what, (on) => on.reviseDone(lease, { rowsStored: 1, cellsCorrected: 2 }));
    else {
      await requestReplay();
      server.revise(request);
    }
    await same(`marks after ${what}`, (on) => on.marks(partition));
    await same(`batches after ${what}`, (on) => on.batches(partition));
    await same(`revision after ${what}`, (on) => on.revision(partition));
    await same(`stream time after ${what}`, (on) => on.streamTime(partition));
    expect({ what, ledger: sorted(server.ledger) }).toEqual({ what, ledger: sorted(await ledgerFrom(postgres)) });
  }
  expect(seen).toEqual(new Set(['begun', 'not begun', 'committed', 'not committed']));
});

const operationNames = [
  'acquire',
  'begin',
  'begin',
  'begin',
  'commit',
  'commit',
  'commit',
  'discard',
  'keepPartial',
  'learn',
  'moveMarks',
  'recallMarks',
  'release',
  'renew',
  'replay',
  'reviseDone',
] as const;
