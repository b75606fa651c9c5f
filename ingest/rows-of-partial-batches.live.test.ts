import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { ledgerFrom, missingRows } from '#clickhouse/queries/missing-rows.ts';
import { DAY_MS } from '#common/durations.ts';
import { systemTime } from '#common/time.ts';
import type { LogFrame } from './formed-batch.ts';
import { FrameQueue } from './frame-queue.ts';
import { HeldPartition } from './held-partition.ts';
import type { RawStore } from './raw-store.ts';
import { Sink } from './sink.ts';
import { newSinkCounters } from './sink-counters.ts';
import { SinkStage, type TestOwner } from './testing/sink-stage.ts';

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
/** Each has rows of this month and of the last one: two parts of a batch. */
const twoMonths = () => [1, 2].map(() => place.frame([...times(20), ...times(15, lastMonth)]));
const removeClicks = (where: string) =>
  place.clickhouse.command(`ALTER TABLE clicks DELETE WHERE ${where}`, {}, { mutations_sync: 2 });

/** What the ledger counts, and what ClickHouse lacks of it. */
async function counted() {
  const ledger = await ledgerFrom(place.postgres);
  const { missing } = await missingRows(place.clickhouse, ledger);
  return {
    rows: ledger.reduce((sum, { rows }) => sum + rows, 0),
    again: ledger.reduce((sum, { rows_again }) => sum + rows_again, 0),
    missing: missing.reduce((sum, { rows }) => sum + rows, 0),
  };
}

const never = () => new Promise<never>(() => undefined);

function storeThatInserts(insert: RawStore['insert']): RawStore {
  return new Proxy<RawStore>(place.store, {
    get: (store, name: keyof RawStore) => (name === 'insert' ? insert : store[name].bind(store)),
  });
}

/** An owner that stores only the first part of a batch, of a replay if wished. @returns the next owner. */
async function storePart(frames: readonly LogFrame[], isReplay = false): Promise<TestOwner> {
  let inserts = 0;
  const dying = storeThatInserts(async (batch, part) =>
    ++inserts === 1 ? await place.store.insert(batch, part) : await never(),
  );
  const first = await place.own(0, dying);
  const sink = isReplay ? await replaying(first) : first.sink;
  void sink.store(await sink.batches.form(frames)).catch(() => undefined);
  await expect.poll(() => inserts).toBe(2);
  first.die();
  const second = await place.own();
  expect(second.sink.held.counters).toMatchObject({ in_doubt_partial: 1 });
  return second;
}

/** The sink by which an owner replays the log. */
async function replaying({ sink: { held, numbers } }: TestOwner): Promise<Sink> {
  const limits = { batchRows: 10_000, batchBytes: 8_000_000, flushIntervalMs: 10 };
  const queue = new FrameQueue(limits, await place.checkpoints.marks(0), systemTime, () => undefined, true);
  const sink = new Sink(new HeldPartition(held.parts, held.lease, queue, { sink: newSinkCounters() }));
  sink.numbers.follow(numbers);
  sink.held.inDoubt.addAll(0, held.inDoubt);
  sink.isReplay = true;
  return sink;
}

async function store({ sink }: TestOwner, frames: readonly LogFrame[]): Promise<void> {
  await sink.store(await sink.batches.form(frames));
}

const stored = async () => Number((await place.figures()).rows);

async function expectToNoticeLosses(): Promise<void> {
  const { missing } = await counted();
  await removeClicks('frame_no = 1 AND idx IN (0, 34)');
  expect((await counted()).missing).toBe(missing + 2);
}

test('rows of a partly stored batch count once, in whatever batches their frames are committed', async () => {
  const frames = twoMonths();
  const second = await storePart(frames);
  expect(await counted()).toEqual({ rows: await stored(), again: 0, missing: 0 });
  for (const frame of frames) await store(second, [frame]);
  expect(await place.figures()).toMatchObject({ rows: 70, places: 70 });
  expect(await counted()).toEqual({ rows: 70, again: 0, missing: 0 });
  expect(await place.checkpoints.batches(0)).toEqual([]);
  await expectToNoticeLosses();
});

test('rows of a partly stored batch that a restore takes before their frames are committed are not missing', async () => {
  const frames = twoMonths();
  const second = await storePart(frames);
  await store(second, frames.slice(0, 1));
  await removeClicks('frame_no = (SELECT max(frame_no) FROM clicks)');
  await store(second, frames.slice(1));
  expect(await place.figures()).toMatchObject({ rows: 70, places: 70 });
  expect(await counted()).toEqual({ rows: 70, again: 0, missing: 0 });
});

test('what a restore has taken of a partly stored batch counts once even if two owners die before it is committed again', async () => {
  const frames = twoMonths();
  (await storePart(frames)).die();
  const before = await stored();
  await removeClicks('1');
  let inserts = 0;
  const dying = storeThatInserts(async (batch, part) => {
    const outcome = await place.store.insert(batch, part);
    return ++inserts < 2 ? outcome : await never();
  });
  const third = await place.own(0, dying);
  void store(third, frames).catch(() => undefined);
  await expect.poll(() => inserts).toBe(2);
  third.die();
  expect(await counted()).toMatchObject({ rows: before, again: 0 });
  const fourth = await place.own();
  expect(fourth.sink.held.counters).toMatchObject({ in_doubt_stored: 1 });
  expect(await counted()).toEqual({ rows: 70, again: 0, missing: 0 });
  await expectToNoticeLosses();
});

test('rows of a partly stored batch whose frames are never delivered again count', async () => {
  await storePart(twoMonths());
  await removeClicks('frame_no = 1 AND idx = (SELECT min(idx) FROM clicks)');
  expect(await counted()).toMatchObject({ again: 0, missing: 1 });
});

test('a replay counts what it has stored in part at once, and the rest later, because the frames are committed', async () => {
  const frames = twoMonths();
  await store(await place.own(), frames);
  await removeClicks('1');
  expect(await counted()).toEqual({ rows: 70, again: 0, missing: 70 });
  const second = await storePart(frames, true);
  const before = await stored();
  expect(await counted()).toEqual({ rows: 70 + before, again: before, missing: 70 - before });
  const sink = await replaying(second);
  await sink.store(await sink.batches.form(frames));
  expect(await counted()).toEqual({ rows: 140, again: 70, missing: 0 });
  expect(await place.checkpoints.batches(0)).toEqual([]);
  await expectToNoticeLosses();
});

test('a replay that stores what a restore has taken of a partly stored batch counts it once, and discards that batch', async () => {
  const frames = twoMonths();
  const sink = await replaying(await storePart(frames));
  await removeClicks('1');
  sink.isReplay = false;
  await sink.store(await sink.batches.form(frames));
  expect(await counted()).toEqual({ rows: 70, again: 0, missing: 0 });
  expect(await place.checkpoints.batches(0)).toEqual([]);
  await expectToNoticeLosses();
});

/** Keeps the ledger and numbers of Postgres. @returns sets them back, with marks up to a frame. */
async function savePostgres(): Promise<(mark: number) => Promise<void>> {
  const [kept] = await place.postgres.query<{ no: number }>('SELECT max(last_batch_no) AS no FROM ingest.last_batch');
  const ledger = JSON.stringify(await ledgerFrom(place.postgres));
  return async (mark) => {
    await place.administer('DELETE FROM ingest.ledger');
    await place.administer(
      'INSERT INTO ingest.ledger SELECT * FROM jsonb_populate_recordset(NULL::ingest.ledger, $1)',
      [ledger],
    );
    await place.administer('UPDATE ingest.last_batch SET last_batch_no = $1', [kept?.no]);
    await place.administer("UPDATE ingest.mark SET mark = $1, ahead = '[]'", [mark]);
  };
}

test('rows that a replay has stored are known to be the same rows although Postgres has lost that replay', async () => {
  const frames = twoMonths();
  const first = await place.own();
  await store(first, frames);
  const setBack = await savePostgres();
  await removeClicks('1');
  const sink = await replaying(first);
  await sink.store(await sink.batches.form(frames));
  first.sink.numbers.follow(sink.numbers);
  await store(first, [place.frame(times(5))]);
  first.die();
  await setBack(2);
  await place.own();
  expect(await counted()).toEqual({ rows: 145, again: 70, missing: 0 });
  await expectToNoticeLosses();
});

test('rows that Postgres has lost, and then a restore of ClickHouse, count once when they are stored again', async () => {
  const [early, ...frames] = [place.frame(times(5)), ...twoMonths()] as const;
  const first = await place.own();
  await store(first, [early]);
  const setBack = await savePostgres();
  await store(first, frames);
  first.die();
  await setBack(1);
  (await place.own()).die();
  expect(await counted()).toEqual({ rows: 75, again: 0, missing: 0 });
  await removeClicks('frame_no = 2');
  await store(await place.own(), frames);
  expect(await place.figures()).toMatchObject({ rows: 75, places: 75 });
  expect(await counted()).toEqual({ rows: 75, again: 0, missing: 0 });
});
