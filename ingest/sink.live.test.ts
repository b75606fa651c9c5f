import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { ClickHouseFailure } from '#clickhouse/client.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import { systemTime } from '#common/time.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { clickhouseForTest, postgresForTest } from '#testing/servers.ts';
import { LeaseLost } from './checkpoints.ts';
import { runsOf } from './formed-batch.ts';
import { MarkExchange } from './mark-exchange.ts';
import { PostgresCheckpoints } from './postgres-checkpoints.ts';
import type { RawStore } from './raw-store.ts';
import { StoringLoop } from './storing-loop.ts';
import { testClick } from './testing/pipeline-harness.ts';
import { SinkStage } from './testing/sink-stage.ts';

let place: SinkStage;
beforeAll(async () => {
  place = await SinkStage.start();
});
beforeEach(async () => {
  place = await place.renewed();
});
afterAll(() => place.stop());

const now = Date.now();
const lastMonth = now - 32 * DAY_MS;
const times = (count: number, time = now) => Array.from({ length: count }, () => time);

/** The store with some methods replaced. */
function storeWith(changes: Partial<RawStore>): RawStore {
  return new Proxy<RawStore>(place.store, {
    get: (store, name: keyof RawStore) => changes[name] ?? store[name].bind(store),
  });
}

const incomplete = [
  ['clicks_by_link_view', 'clicks_by_dimension_view'],
  ['clicks_by_link_view'],
  ['clicks_by_dimension_view'],
].map((views) => ({ views, title: views.join(' and ') }));
testCostlyCases(
  incomplete,
  1,
  'a batch that reached the raw table without $title is completed, once',
  async ({ views }) => {
    const first = await place.own();
    await first.sink.store(await first.sink.batches.form([place.frame(times(20))]));
    const frames = [place.frame(times(30)), place.frame(times(10, now - HOUR_MS))];
    const batch = await place.withoutViews(views, async () => {
      const formed = await first.sink.batches.form(frames);
      const lease = await currentLease();
      const entry = {
        batch_no: formed.batch.batch_no,
        frames: runsOf(formed.frames),
        parts: formed.parts,
        stream_time: 1,
        is_partial: false,
        is_again: false,
        stored: [],
        gone: [],
      };
      await place.checkpoints.begin(lease, entry, lease.lastBatchNo);
      for (const part of formed.parts)
        expect(await place.store.insert(formed.batch, part)).toEqual({ kind: 'written' });
      return formed;
    });
    first.die();
    const second = await place.own();
    expect(second.sink.held.counters).toMatchObject({ in_doubt_stored: 1, filled_rollups: views.length });
    expect(await place.figures()).toEqual({ rows: 60, places: 60, rollup_difference: 0 });
    expect(second.queue.marks).toMatchObject([{ mark: batch.frames.at(-1)?.header.frame_no }]);
  },
);

async function currentLease() {
  const [row] = await place.postgres.query<{ owner: string; epoch: number; last_batch_no: number }>(
    'SELECT owner, epoch, coalesce(last_batch_no, 0) AS last_batch_no FROM ingest.lease LEFT JOIN ingest.last_batch USING (partition) WHERE partition = 0',
  );
  if (row === undefined) throw new Error('no lease');
  return { partition: 0, owner: row.owner, epoch: row.epoch, lastBatchNo: row.last_batch_no };
}

test('if one of a batch’s two months was stored, the other is stored once, even if two owners die in between', async () => {
  const frames = [place.frame([...times(20), ...times(15, lastMonth)]), place.frame(times(5))];
  let inserts = 0;
  const dying = storeWith({
    insert: async (batch, part) => {
      if (++inserts === 1) return place.store.insert(batch, part);
      return await new Promise(() => undefined);
    },
  });
  const first = await place.own(0, dying);
  void first.sink.store(await first.sink.batches.form(frames)).catch(() => undefined);
  await expect.poll(() => inserts).toBe(2);
  first.die();
  const second = await place.own();
  expect(second.sink.held.counters).toMatchObject({ in_doubt_partial: 1 });
  second.die();
  const third = await place.own();
  // The frames are delivered again, in other batches.
  for (const frame of frames) await third.sink.store(await third.sink.batches.form([frame]));
  expect(await place.figures()).toEqual({ rows: 40, places: 40, rollup_difference: 0 });
  expect(await place.checkpoints.batches(0)).toEqual([]);
});

test('an owner whose insert gets no answer continues by itself, whether the batch was stored or not', async () => {
  let isLost = false;
  const losing = storeWith({
    insert: async (batch, part) => {
      isLost = !isLost;
      const no = { kind: 'unknown', code: 0, message: 'no answer' } as const;
      if (!isLost) return place.store.insert(batch, part);
      if (batch.batch_no % 2 === 0) await place.store.insert(batch, part);
      return no;
    },
  });
  const owner = await place.own(0, losing);
  for (let n = 0; n < 6; n++) await owner.sink.store(await owner.sink.batches.form([place.frame(times(10 + n))]));
  expect(await place.figures()).toEqual({ rows: 75, places: 75, rollup_difference: 0 });
});

test('a batch that was formed before the previous one got a higher number is renumbered above it', async () => {
  let isFirst = true;
  const losing = storeWith({
    insert: async (batch, part) => {
      if (!isFirst) return await place.store.insert(batch, part);
      isFirst = false;
      return { kind: 'unknown', code: 0, message: 'no answer' };
    },
  });
  const owner = await place.own(0, losing);
  const [one, two] = [
    await owner.sink.batches.form([place.frame(times(3))]),
    await owner.sink.batches.form([place.frame(times(4))]),
  ];
  await owner.sink.store(one);
  await owner.sink.store(two);
  const numbers = await place.clickhouse.query<{ frame_no: number; batch_no: number }>(
    'SELECT DISTINCT frame_no, batch_no FROM clicks ORDER BY batch_no',
  );
  expect(numbers.map((row) => row.frame_no)).toEqual([1, 2]);
  expect(await place.figures()).toEqual({ rows: 7, places: 7, rollup_difference: 0 });
});

test('once a fence is raised, no insert below it is accepted, and none that passed it is still running', async () => {
  await place.clickhouse.command(`CREATE TABLE slow_rollup (n UInt64) ENGINE = MergeTree ORDER BY n`);
  await place.clickhouse.command(
    'CREATE MATERIALIZED VIEW slow_view TO slow_rollup AS SELECT sum(1 + sleepEachRow(0.1)) AS n FROM clicks',
  );
  onTestFinished(async () => {
    for (const dropped of ['VIEW slow_view', 'TABLE slow_rollup']) await place.clickhouse.command(`DROP ${dropped}`);
  });
  const owner = await place.own();
  const [one, two] = [
    await owner.sink.batches.form([place.frame(times(25))]),
    await owner.sink.batches.form([place.frame(times(5))]),
  ];
  const [part, next] = [one.parts[0], two.parts[0]];
  if (part === undefined || next === undefined) throw new Error('no part');
  let isAnswered = false;
  const running = place.store.insert(one.batch, part).finally(() => {
    isAnswered = true;
  });
  await expect.poll(() => place.store.rowsOf(one.batch, part), { timeout: 10_000 }).toBe(25);
  expect(isAnswered).toBe(false);
  const mine = (await place.store.fence(0, 1, '', false)).owner;
  await place.store.fence(0, two.batch.batch_no, mine, false);
  const rollups = await place.store.rollupsWithout(one.batch, part);
  await running;
  expect(await place.store.rollupsWithout(one.batch, part)).toEqual(rollups);
  expect(await place.store.insert(one.batch, part)).toEqual({ kind: 'fenced' });
  expect(await place.store.insert(two.batch, next)).toEqual({ kind: 'written' });
  // A lower fence changes nothing.
  expect(await place.store.fence(0, 1, mine, false)).toEqual({ batchNoMin: two.batch.batch_no, owner: mine });
  // Nor can a previous owner raise it, or add to a rollup.
  const [rollup = ''] = place.store.rollupsOf('clicks');
  expect(await place.store.fence(0, Number.MAX_SAFE_INTEGER, 'before', false)).toMatchObject({ owner: mine });
  await place.clickhouse.command(`TRUNCATE TABLE ${rollup}`);
  await place.store.fillIn(two.batch, next, rollup, { batchNoMin: two.batch.batch_no, owner: 'before' });
  expect(await place.store.rollupsWithout(two.batch, next)).toEqual([rollup]);
  await place.store.fillIn(two.batch, next, rollup, { batchNoMin: two.batch.batch_no, owner: mine });
  expect(await place.store.rollupsWithout(two.batch, next)).toEqual([]);
  // Each partition has its own fence.
  expect(await place.store.insert({ ...one.batch, partition: 0 }, part)).toEqual({ kind: 'fenced' });
});

test('an owner that raises its fence after its successor has raised one ends, and the fence of its successor stays', async () => {
  const first = await place.own();
  await first.sink.store(await first.sink.batches.form([place.frame(times(5))]));
  const second = await place.own();
  const { fence } = second.sink.numbers;
  await expect(first.sink.numbers.raiseFenceByOne()).rejects.toThrow('has the fence of another owner');
  expect(await place.store.fence(0, 1, fence.owner, false)).toEqual(fence);
  await second.sink.store(await second.sink.batches.form([place.frame(times(5))]));
  expect(await place.figures()).toEqual({ rows: 10, places: 10, rollup_difference: 0 });
});

test('late inserts of an owner with a clock ahead are shut out, although Postgres has lost their batch number', async () => {
  const clock = { offMs: 5 * HOUR_MS };
  const databases = [await postgresForTest(), await clickhouseForTest()] as const;
  const time = { ...systemTime, now: () => Date.now() + clock.offMs };
  const stage = new SinkStage(databases, time);
  onTestFinished(() => stage.stop());
  const first = await stage.own();
  await first.sink.store(await first.sink.batches.form([stage.frame(times(5))]));
  const late = await first.sink.batches.form([stage.frame(times(5))]);
  await stage.administer('TRUNCATE ingest.last_batch, ingest.batch, ingest.mark');
  clock.offMs = 0;
  await stage.own();
  const [part] = late.parts;
  if (part === undefined) throw new Error('no part');
  expect(await stage.store.insert(late.batch, part)).toEqual({ kind: 'fenced' });
});

test('numbers continue above a stored batch that a clock ahead has numbered, although Postgres has lost its number and ClickHouse its fence', async () => {
  const clock = { offMs: 5 * HOUR_MS };
  const time = { ...systemTime, now: () => Date.now() + clock.offMs };
  const stage = new SinkStage([await postgresForTest(), await clickhouseForTest()], time);
  onTestFinished(() => stage.stop());
  const first = await stage.own();
  const stored = await first.sink.batches.form([stage.frame(times(5))]);
  await first.sink.store(stored);
  await stage.administer('TRUNCATE ingest.last_batch, ingest.batch, ingest.mark');
  await stage.clickhouse.command('TRUNCATE TABLE fences');
  clock.offMs = 0;
  const second = await stage.own();
  const next = await second.sink.batches.form([stage.frame(times(5))]);
  expect(next.batch.batch_no).toBeGreaterThan(stored.batch.batch_no);
  await second.sink.store(next);
  expect(await stage.figures()).toEqual({ rows: 10, places: 10, rollup_difference: 0 });
});

test('an owner raises its fence before it assigns a batch number that the next owner would not shut out', async () => {
  const clock = { offMs: 0 };
  const databases = [await postgresForTest(), await clickhouseForTest()] as const;
  const stage = new SinkStage(databases, { ...systemTime, now: () => Date.now() + clock.offMs });
  onTestFinished(() => stage.stop());
  const owner = await stage.own();
  const before = owner.sink.numbers.fence;
  await owner.sink.store(await owner.sink.batches.form([stage.frame(times(5))]));
  expect(owner.sink.numbers.fence).toEqual(before);
  clock.offMs = 5 * HOUR_MS;
  const batch = await owner.sink.batches.form([stage.frame(times(5))]);
  await owner.sink.store(batch);
  expect(owner.sink.numbers.fence.batchNoMin).toBe(batch.batch.batch_no);
  expect(await stage.figures()).toEqual({ rows: 10, places: 10, rollup_difference: 0 });
});

test('an owner whose Postgres loses more commits during recovery acquires the partition again', async () => {
  const first = await place.own();
  await first.sink.store(await first.sink.batches.form([place.frame(times(5))]));
  first.die();
  const { sink } = await place.own();
  const { lastBatchNo } = sink.held.lease.lease;
  expect(lastBatchNo).toBeGreaterThan(0);
  const entry = {
    batch_no: lastBatchNo + 1,
    frames: [],
    parts: [],
    stream_time: 0,
    is_partial: true,
    is_again: false,
    stored: [],
    gone: [],
  };
  await place.administer('UPDATE ingest.last_batch SET last_batch_no = last_batch_no - 1');
  await expect(sink.numbers.learn(entry, lastBatchNo + 7, [])).rejects.toThrow(LeaseLost);
  await place.administer('UPDATE ingest.last_batch SET last_batch_no = last_batch_no + 1');
  await sink.numbers.learn(entry, lastBatchNo + 7, []);
  // Repeated after a lost response.
  await sink.numbers.learn(entry, lastBatchNo + 7, []);
});

test('a batch without a number that was left in doubt is withdrawn, including its cells in rollups', async () => {
  const first = await place.own();
  await first.sink.store(await first.sink.batches.form([place.frame(times(20))]));
  first.die();
  const frame = place.frame(times(30));
  const columns =
    "* REPLACE (0 AS batch_no, 'old' AS batch_id, toUInt64(2) AS frame_no, generateUUIDv4()::String AS click_id)";
  await place.withoutViews(['clicks_by_link_view'], async () => {
    await place.clickhouse.command('ALTER TABLE clicks DROP CONSTRAINT fenced');
    await place.clickhouse.command(`INSERT INTO clicks SELECT ${columns} FROM clicks`, {}, { async_insert: 0 });
  });
  await place.clickhouse.command(
    "ALTER TABLE clicks ADD CONSTRAINT fenced CHECK batch_no >= joinGet('fences', 'batch_no_min', log_partition)",
  );
  const parts = JSON.stringify([
    {
      table: 'clicks',
      partition: new Date(now).toISOString().slice(0, 7).replace('-', ''),
      rows: 30,
      time_from: now,
      time_to: now,
    },
  ]);
  await place.postgres.execute(
    "INSERT INTO ingest.batch (batch_id, partition, epoch, frames, parts, boot_id, stream_time) VALUES ('old', 1, 1, '[]', $1, '', 1)",
    [parts],
  );
  const second = await place.own();
  expect(await place.figures()).toEqual({ rows: 20, places: 20, rollup_difference: 0 });
  expect(await place.checkpoints.unnumberedBatches()).toEqual([]);
  await second.sink.store(await second.sink.batches.form([frame]));
  expect(await place.figures()).toEqual({ rows: 50, places: 50, rollup_difference: 0 });
});

const lostFrames = () =>
  place.postgres.query('SELECT producer_id, kind, frame_from, frame_to, records FROM ingest.lost_frames');

test('frames that are in no journal are skipped once the log was read to its end, and counted if no store has them', async () => {
  const first = await place.own();
  const setBack = await savePostgres();
  const frames = [1, 2, 3, 4].map(() => place.frame(times(5)));
  await first.sink.store(await first.sink.batches.form(frames.slice(0, 2)));
  first.die();
  await setBack();
  const second = await place.own();
  await second.sink.store(await second.sink.batches.form(frames.slice(3)));
  const { producer_id } = frames[0]?.header ?? never();
  const lane = { producer_id, kind: 'click', partition: 0 } as const;
  expect(second.queue.marks).toMatchObject([{ mark: 0, ahead: [[4, 4]] }]);
  // Frames 1 and 2 are stored; frame 3 is lost.
  await second.sink.closeGaps(second.queue.gapsIn([{ ...lane, floor: 4 }]));
  expect(second.sink.held.counters).toMatchObject({ frames_closed: 3, frames_missing: 1 });
  expect(await lostFrames()).toEqual([{ producer_id, kind: 'click', frame_from: 3, frame_to: 3, records: 1 }]);
  expect(await place.checkpoints.marks(0)).toMatchObject([{ mark: 4, ahead: [] }]);
  expect(await place.checkpoints.batches(0)).toEqual([]);
  expect(second.queue.gapsIn([{ ...lane, floor: 4 }])).toEqual([]);
});

test('frames that a journal has lost are counted once, in the transaction that moves the mark past them', async () => {
  const first = await place.own();
  const frames = [1, 2, 3, 4].map(() => place.frame(times(5)));
  await first.sink.store(await first.sink.batches.form([frames[0] ?? never(), frames[3] ?? never()]));
  const { producer_id } = frames[0]?.header ?? never();
  const lane = { producer_id, kind: 'click', partition: 0, floor: 1, lost: [[2, 3, 10] as const] } as const;
  const gaps = first.queue.gapsIn([lane]);
  const lost = [{ producer_id, kind: 'click', frame_from: 2, frame_to: 3, records: 10 }];
  await first.sink.closeGaps(gaps);
  expect(await place.checkpoints.marks(0)).toMatchObject([{ mark: 4, ahead: [] }]);
  expect(await lostFrames()).toEqual(lost);
  // The next owner has the same marks, so nothing is counted again, nor is a repeated transaction.
  first.die();
  const second = await place.own();
  expect(second.queue.gapsIn([lane])).toEqual([]);
  await second.sink.closeGaps(gaps);
  expect(await lostFrames()).toEqual(lost);
  // If their frames turn up after all, the marks drop them.
  expect(second.queue.push(frames[1] ?? never())).toBe(true);
  expect(second.queue.counters.known_frames).toBe(1);
});

test('a request that ClickHouse or a proxy refuses is repeated, counted as refused, and its reason is logged as a warning once', async () => {
  const { sink } = await place.own();
  const log = vi.spyOn(sink.held.parts, 'log');
  onTestFinished(() => log.mockRestore());
  const refused = new ClickHouseFailure('refused', 0, 'HTTP 431', undefined);
  const answers = [refused, refused, undefined];
  await sink.held.patiently(async () => {
    const failure = answers.shift();
    if (failure !== undefined) throw failure;
  });
  expect(sink.held.counters).toMatchObject({ refusals: 2, retries: 0 });
  const line = [{ reason: 'HTTP 431', code: 0 }, expect.stringContaining('refuses')] as const;
  expect(log.mock.calls).toEqual([
    [...line, 'warn'],
    [...line, undefined],
  ]);
});

test('closing gaps sets no mark back that a batch moves at the same time', async () => {
  const owner = await place.own();
  const [first, , , known, next] = [1, 2, 3, 4, 5].map(() => place.frame(times(5)));
  if (first === undefined || known === undefined || next === undefined) throw new Error('no frame');
  await owner.sink.store(await owner.sink.batches.form([known]));
  const lane = { producer_id: first.header.producer_id, kind: 'click', partition: 0 } as const;
  const nats = { names: { marks: '' }, publish: () => undefined } as unknown as NatsClient;
  const exchange = new MarkExchange({
    partition: 0,
    installationId: '',
    nats,
    time: systemTime,
    committedAt: () => undefined,
  });
  exchange.noteFloors([{ ...lane, floor: first.header.frame_no + 3 }]);
  const loop = new StoringLoop(owner.sink, exchange);
  const batch = await owner.sink.batches.form([next]);
  // Marks that are moved without a batch would reach Postgres after those of the batch.
  let storing: Promise<void> = Promise.resolve();
  const moveMarks = vi.spyOn(PostgresCheckpoints.prototype, 'moveMarks').mockImplementation(async (lease, marks) => {
    moveMarks.mockRestore();
    await storing;
    await place.checkpoints.moveMarks(lease, marks);
  });
  onTestFinished(() => moveMarks.mockRestore());
  storing = loop.inTurn(async () => {
    loop.closeGaps();
    await owner.sink.store(batch);
  });
  await storing;
  owner.queue.stop();
  await loop.run();
  expect(await place.checkpoints.marks(0)).toMatchObject([{ mark: next.header.frame_no, ahead: [] }]);
});

test('frames of a disk that is restored after years are not counted again, even if their owner dies in between', async () => {
  const first = await place.own();
  const frames = [1, 2, 3, 4].map(() => place.frame(times(5)));
  await first.sink.store(await first.sink.batches.form(frames.slice(0, 3)));
  first.die();
  await place.postgres.execute("UPDATE ingest.mark SET updated_at = now() - interval '90 years'");
  const second = await place.own();
  expect(second.queue.marks).toEqual([]);
  const again = await second.sink.batches.form(frames.slice(0, 2));
  expect(again.frames).toEqual([]);
  await second.sink.store(again);
  second.die();
  const third = await place.own();
  await third.sink.store(await third.sink.batches.form(frames));
  expect(await place.figures()).toEqual({ rows: 20, places: 20, rollup_difference: 0 });
  expect(third.queue.marks).toMatchObject([{ mark: 4, ahead: [] }]);
});

test('a batch in doubt whose people are erased is stored once, and the rows not stored before are blank', async () => {
  const frames = [place.frame([...times(20), ...times(15, lastMonth)]), place.frame(times(5))];
  const again = place.frame(times(7));
  const { organization_id } = JSON.parse(testClick(now)) as { organization_id: string };
  let inserts = 0;
  const losing = storeWith({
    insert: async (batch, part) => {
      if (++inserts === 1 || inserts > 4) return await place.store.insert(batch, part);
      if (inserts === 2) {
        await place.administer(
          `INSERT INTO ingest.erasure (organization_id, until_ms, salt, hashes, expires_at)
           VALUES ($1, $2, 'salt', NULL, now() + interval '1 day')`,
          [organization_id, Date.now() + 1_000],
        );
        await place.erasures.refresh();
      }
      // Insert 2 is lost; insert 3 takes effect, but its response is lost; insert 4 is lost.
      if (inserts === 3) await place.store.insert(batch, part);
      return { kind: 'unknown', code: 0, message: 'no answer' };
    },
  });
  const first = await place.own(0, losing);
  await first.sink.store(await first.sink.batches.form(frames));
  await first.sink.store(await first.sink.batches.form([again]));
  expect(first.sink.held.counters).toMatchObject({ in_doubt_partial: 1, in_doubt_stored: 1, in_doubt_discarded: 1 });
  expect(await place.figures()).toEqual({ rows: 47, places: 47, rollup_difference: 0 });
  const blank = await place.clickhouse.query(
    "SELECT idx >= 20 AS is_second, frame_no, countIf(click_id = '') AS blank, count() AS all FROM clicks GROUP BY ALL ORDER BY frame_no, is_second",
  );
  expect(blank).toEqual([
    { is_second: 0, frame_no: 1, blank: 0, all: 20 },
    { is_second: 1, frame_no: 1, blank: 15, all: 15 },
    { is_second: 0, frame_no: 2, blank: 0, all: 5 },
    { is_second: 0, frame_no: 3, blank: 7, all: 7 },
  ]);
});

test('two owners reconcile batches of the same day that are in doubt at the same time', {
  tags: ['slow'],
}, async () => {
  const frames = [0, 1].map((partition) => place.frame(times(30), partition));
  const views = ['clicks_by_link_view', 'clicks_by_dimension_view'];
  await place.withoutViews(views, async () => {
    for (const partition of [0, 1]) {
      const silent = storeWith({
        insert: async (batch, part) => {
          await place.store.insert(batch, part);
          return await new Promise(() => undefined);
        },
      });
      const owner = await place.own(partition, silent);
      const frame = frames[partition];
      if (frame === undefined) throw new Error('no frame');
      const batch = await owner.sink.batches.form([frame]);
      void owner.sink.store(batch).catch(() => undefined);
      await expect.poll(() => place.store.rowsOf(batch.batch, batch.parts[0] ?? never())).toBe(30);
      owner.die();
    }
  });
  await Promise.all([place.own(0), place.own(1)]);
  expect(await place.figures()).toEqual({ rows: 60, places: 60, rollup_difference: 0 });
});

test('a delayed completion of a rollup adds nothing after its owner has repeated it', async () => {
  const late: (() => Promise<void>)[] = [];
  const slow = storeWith({
    insert: async (batch, part) => {
      await place.store.insert(batch, part);
      return { kind: 'unknown', code: 0, message: 'no answer' };
    },
    fillIn: async (...asked) => {
      if (late.push(() => place.store.fillIn(...asked)) > 1) return await place.store.fillIn(...asked);
      throw new ClickHouseFailure('unavailable', 0, 'no answer', undefined);
    },
  });
  await place.withoutViews(['clicks_by_link_view', 'clicks_by_dimension_view'], async () => {
    const owner = await place.own(0, slow);
    await owner.sink.store(await owner.sink.batches.form([place.frame(times(30))]));
  });
  const [first = never()] = late;
  await first();
  expect(await place.figures()).toEqual({ rows: 30, places: 30, rollup_difference: 0 });
});

test('a delayed correction of a day adds nothing after its owner has repeated it', async () => {
  const late: (() => Promise<number>)[] = [];
  const slow = storeWith({
    correct: async (...asked) => {
      if (late.push(() => place.store.correct(...asked)) > 1) return await place.store.correct(...asked);
      throw new ClickHouseFailure('unavailable', 0, 'no answer', undefined);
    },
  });
  const owner = await place.own(0, slow);
  await owner.sink.store(await owner.sink.batches.form([place.frame(times(30))]));
  await place.clickhouse.command('TRUNCATE TABLE clicks_by_link');
  const day = { table: 'clicks', dayMs: Math.floor(now / DAY_MS) * DAY_MS };
  expect(await owner.sink.reconciler.correct(day)).toBeGreaterThan(0);
  expect(await place.figures()).toMatchObject({ rollup_difference: 0 });
  await place.clickhouse.command('TRUNCATE TABLE clicks_by_link');
  const [first = never()] = late;
  await first();
  expect(await place.figures()).toMatchObject({ rollup_difference: 30 });
});

function never(): never {
  throw new Error('there is no part');
}

test('a batch that Postgres has lost is completed in its rollups, and its frames are skipped when they are delivered again', async () => {
  const first = await place.own();
  await first.sink.store(await first.sink.batches.form([place.frame(times(20))]));
  const saved = await place.postgres.query('SELECT * FROM ingest.last_batch');
  expect(saved).toHaveLength(1);
  const [{ last_batch_no }] = saved as [{ last_batch_no: number }];
  const frames = [place.frame(times(30)), place.frame(times(7))];
  await place.withoutViews(['clicks_by_dimension_view'], async () => {
    const batch = await first.sink.batches.form(frames.slice(0, 1));
    for (const part of batch.parts) await place.store.insert(batch.batch, part);
  });
  first.die();
  await place.postgres.execute('UPDATE ingest.last_batch SET last_batch_no = $1', [last_batch_no]);
  const second = await place.own();
  expect(second.sink.held.counters).toMatchObject({ lost_commits: 1, filled_rollups: 1 });
  await second.sink.store(await second.sink.batches.form(frames));
  expect(second.sink.held.counters).toMatchObject({ stored_before: 30 });
  expect(await place.figures()).toEqual({ rows: 57, places: 57, rollup_difference: 0 });
});

/** Saves the state of Postgres. @returns how to restore it. */
async function savePostgres(): Promise<() => Promise<void>> {
  const { lastBatchNo } = await currentLease();
  const marks = await place.postgres.query('SELECT * FROM ingest.mark');
  return async () => {
    await place.administer('DELETE FROM ingest.batch; DELETE FROM ingest.mark');
    await place.postgres.execute(
      'INSERT INTO ingest.mark SELECT * FROM jsonb_populate_recordset(NULL::ingest.mark, $1)',
      [JSON.stringify(marks)],
    );
    await place.postgres.execute('UPDATE ingest.last_batch SET last_batch_no = $1', [lastBatchNo]);
  };
}

test('an owner whose Postgres lost a commit is not renewed, even if nothing more is stored', async () => {
  const first = await place.own();
  await first.sink.store(await first.sink.batches.form([place.frame(times(20))]));
  const setBack = await savePostgres();
  await first.sink.store(await first.sink.batches.form([place.frame(times(3))]));
  const { held } = first.sink;
  const lease = await currentLease();
  const renewed = () => place.checkpoints.renew(lease, 5, lease.lastBatchNo);
  await renewed();
  await place.postgres.execute(
    "INSERT INTO ingest.batch (partition, batch_no, epoch, frames, parts, stream_time) VALUES (0, $1, 1, '[]', '[]', 0)",
    [lease.lastBatchNo],
  );
  await expect(renewed()).rejects.toThrow(LeaseLost);
  await setBack();
  await expect(renewed()).rejects.toThrow(LeaseLost);
  held.lease.abandon();
});

test('an owner whose Postgres is restored acquires the partition again before it stores anything', {
  tags: ['slow'],
}, async () => {
  const first = await place.own();
  await first.sink.store(await first.sink.batches.form([place.frame(times(20))]));
  const setBack = await savePostgres();
  const frames = [place.frame(times(30)), place.frame(times(7))];
  await first.sink.store(await first.sink.batches.form(frames.slice(0, 1)));
  await setBack();
  await expect(first.sink.store(await first.sink.batches.form(frames.slice(1)))).rejects.toThrow(LeaseLost);
  const second = await place.own();
  expect(second.sink.held.counters).toMatchObject({ lost_commits: 1 });
  await second.sink.store(await second.sink.batches.form(frames));
  expect(await place.figures()).toEqual({ rows: 57, places: 57, rollup_difference: 0 });
});

test('commits that Postgres has lost stay known to the owners after the one that found them', {
  tags: ['slow'],
}, async () => {
  const first = await place.own();
  const setBack = await savePostgres();
  const frames = [place.frame(times(30)), place.frame(times(7))];
  await first.sink.store(await first.sink.batches.form(frames.slice(0, 1)));
  first.die();
  await setBack();
  const second = await place.own();
  await second.sink.store(await second.sink.batches.form(frames.slice(1)));
  second.die();
  const third = await place.own();
  await third.sink.store(await third.sink.batches.form(frames.slice(0, 1)));
  expect(third.sink.held.counters).toMatchObject({ lost_commits: 0, stored_before: 30 });
  expect(await place.figures()).toEqual({ rows: 37, places: 37, rollup_difference: 0 });
  expect(await place.postgres.query('SELECT batch_no FROM ingest.batch')).toEqual([]);
});

test('commits of ingest are on disk when acknowledged, even if the server is configured otherwise', async () => {
  await place.administer(
    `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`,
  );
  await place.administer('CREATE TABLE kept (how text)');
  await place.administer('GRANT SELECT ON kept TO signpost_ingest');
  await place.administer(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    INSERT INTO kept VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`);
  for (const table of ['mark', 'batch']) {
    await place.administer(`CREATE TRIGGER note AFTER INSERT ON ingest.${table} EXECUTE FUNCTION note()`);
  }
  await place.reconnect();
  expect(await place.postgres.query('SHOW synchronous_commit')).toEqual([{ synchronous_commit: 'off' }]);
  const owner = await place.own();
  await owner.sink.store(await owner.sink.batches.form([place.frame(times(3))]));
  expect(await place.postgres.query('SELECT how FROM kept')).toEqual([{ how: 'on' }, { how: 'on' }]);
});
