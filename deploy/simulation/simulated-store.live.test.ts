/**
 * Runs the same random operations on the simulated ClickHouse and on a real server, and compares the outcomes.
 *
 * @module-tag slow
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { monthOf } from '#clickhouse/rows.ts';
import { DAY_MS } from '#common/durations.ts';
import type { FormedBatch, LogFrame } from '#ingest/formed-batch.ts';
import { FENCE_REACH, type RawStore, type SentPart } from '#ingest/raw-store.ts';
import { SinkStage } from '#ingest/testing/sink-stage.ts';
import { SeededRandom } from '#testing/seeded-random.ts';
import type { SimulatedRow } from './clickhouse-content.ts';
import { simulated } from './conformance.ts';
import { Machine } from './machine.ts';
import { Scheduler } from './scheduler.ts';
import { SimulatedClickHouse } from './simulated-clickhouse.ts';
import { SimulatedStore } from './simulated-store.ts';

const seed = 7;

let stage: SinkStage;
beforeEach(async () => {
  stage = await SinkStage.start();
});
afterEach(() => stage.stop());

/** A batch in the form that the simulated server takes. */
function thin({ batch }: FormedBatch, frame: LogFrame, times: readonly number[]): SentPart[] {
  const { producer_id, frame_no } = frame.header;
  const of = {
    table: 'clicks',
    log_partition: batch.partition,
    batch_no: batch.batch_no,
    producer_id,
    frame_no,
    id: '',
    install: '',
    sign: 1 as const,
    isLearned: false,
  };
  const rows = times.map(
    (time, idx): SimulatedRow => ({ ...of, n: frame_no * 100 + idx, month: monthOf(time), idx, time }),
  );
  return [...new Set(rows.map(({ month }) => month))].map((partition) => {
    const own = rows.filter(({ month }) => month === partition);
    const [time_from, time_to] = [Math.min(...own.map(({ time }) => time)), Math.max(...own.map(({ time }) => time))];
    const body = Buffer.from(JSON.stringify(own));
    return { table: 'clicks', partition, rows: own.length, time_from, time_to, columns: [], body };
  });
}

/**
 * Makes outcomes comparable: sorts lists, expands ranges of frames, and replaces names of rollups by their position.
 */
function plain(value: unknown, rollups: readonly string[]): unknown {
  if (typeof value === 'string' && rollups.includes(value)) return rollups.indexOf(value);
  if (Array.isArray(value))
    return value
      .map((one) => plain(one, rollups))
      .sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
  if (typeof value !== 'object' || value === null) return value;
  const { ranges, ...rest } = value as { ranges?: readonly [number, number][] };
  const frames = ranges?.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, n) => from + n));
  const fields = Object.entries<unknown>(rest)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, field]): [string, unknown] => [name, plain(field, rollups)]);
  return Object.fromEntries(frames === undefined ? fields : [...fields, ['frames', frames]]);
}

const title = 'during %i operations, the simulated ClickHouse stores, fences, finds and corrects as the real one does';
test.each([8, 20])(title, async (operations) => {
  const random = new SeededRandom(seed);
  const scheduler = new Scheduler(seed);
  const machine = new Machine('machine', scheduler, Date.now());
  const server = new SimulatedClickHouse(scheduler, Date.now());
  const twin = new SimulatedStore(server, machine.start('test'), machine);
  const real = stage.store;
  const rollups = { real: real.rollupsOf('clicks'), twin: twin.rollupsOf('clicks') };
  const same = async (what: string, operation: (store: RawStore, rollups: readonly string[]) => Promise<unknown>) => {
    const outcome = plain(await operation(real, rollups.real), rollups.real);
    const twins = plain(await simulated(scheduler, () => operation(twin, rollups.twin)), rollups.twin);
    expect({ what, outcome: twins }).toEqual({ what, outcome });
  };
  const sent: { readonly formed: FormedBatch; readonly parts: readonly SentPart[] }[] = [];
  const owners = await Promise.all([stage.own(0), stage.own(1)]);
  let fence = { batchNoMin: 0, owner: '' };

  /** Stores a batch; if it is cut off, in the raw table alone. */
  const store = async ({ formed: { batch, parts }, parts: thinParts }: (typeof sent)[number], isCutOff: boolean) => {
    const views = isCutOff ? ['clicks_by_link_view', 'clicks_by_dimension_view'] : [];
    const outcomes = await stage.withoutViews(views, async () => {
      const kinds: string[] = [];
      for (const part of parts) kinds.push((await real.insert(batch, part)).kind);
      return kinds;
    });
    for (const part of thinParts) {
      const before = server.rows.length;
      const inserting = twin.insert(batch, part);
      if (isCutOff) {
        await scheduler.run(scheduler.now + 1_000, () => server.rows.length > before);
        server.kill(batch.partition);
      }
      const { kind } = await simulated(scheduler, () => inserting);
      expect(outcomes).toContain(isCutOff && kind === 'unknown' ? 'written' : kind);
    }
  };

  for (const partition of [0, 1]) {
    const { batchNoMin } = await real.fence(partition, 0, '', false);
    await same('the first fence', (on) => on.fence(partition, batchNoMin + FENCE_REACH, `owner of ${partition}`, true));
  }
  for (let at = 0; at < operations; at++) {
    const partition = random.between(0, 1);
    const times = Array.from(
      { length: random.between(1, 5) },
      () => Date.now() - random.pick([0, 0, DAY_MS, 40 * DAY_MS]),
    );
    const chance = random.next();
    if (chance < 0.5 || sent.length === 0) {
      const frame = stage.frame(times, partition);
      const formed = await owners[partition]?.sink.batches.form([frame]);
      if (formed === undefined) throw new Error('there is no owner');
      const one = { formed, parts: thin(formed, frame, times) };
      sent.push(one);
      await store(one, random.next() < 0.3);
    } else if (chance < 0.7) {
      const { batch } = random.pick(sent).formed;
      const owner = random.pick([`owner of ${batch.partition}`, `owner of ${batch.partition}`, `another ${at}`]);
      const min = batch.batch_no + random.between(-1, 1);
      const isNewOwner = random.next() < 0.3;
      await same('fence', (on) => on.fence(batch.partition, min, owner, isNewOwner));
    }
    const { formed, parts } = random.pick(sent);
    const { batch } = formed;
    const [part] = parts;
    if (part === undefined) throw new Error('there is no part');
    await same('partitions', async (on) => [...(await on.partitions())].sort());
    await same('rows', (on) => on.rowsOf(batch, part));
    // A cell only records the newest batch in it.
    const isNewest = (await real.newestBatch(batch.partition, batch.batch_no - 1)).raw === batch.batch_no;
    if (isNewest) await same('rollups', (on) => on.rollupsWithout(batch, part));
    await same('newest', (on) => on.newestBatch(batch.partition, batch.batch_no - 1));
    await same('frames', (on) => on.framesAbove(batch.partition, batch.batch_no - 1));
    await same('days', (on) => on.daysAbove(batch.partition, batch.batch_no - 1));
    const { producer_id, kind, frame_no } = formed.frames[0]?.header ?? stage.frame(times).header;
    const span = { producer_id, kind, from: Math.max(1, frame_no - 2), to: frame_no };
    await same('places', (on) => on.placesOf(batch.partition, 0, [span]));
    const batches = [random.pick([0, batch.batch_no]), batch.batch_no] as const;
    await same('rows of frames', (on) => on.rowsByFrame(batch.partition, batches, [span]));
    const lane = { producer_id, kind, partition: batch.partition };
    const marks =
      random.next() < 0.3
        ? []
        : [{ ...lane, mark: Math.max(0, frame_no - 2), ahead: [[frame_no, frame_no + 1]] as const }];
    await same('rows above', (on) => on.rowsAbove(batch.partition, batch.batch_no - 1, marks));
    await same('fence', async (on) => {
      fence = await on.fence(batch.partition, 0, '', false);
      return fence;
    });
    const inForce = random.next() < 0.7 ? fence : { ...fence, batchNoMin: fence.batchNoMin + 1 };
    if (isNewest && (await real.rowsOf(batch, part)) > 0)
      await same('fill in', async (on, names) => {
        for (const rollup of await on.rollupsWithout(batch, part)) await on.fillIn(batch, part, rollup, inForce);
        return (await on.rollupsWithout(batch, part)).map((rollup) => names.indexOf(rollup));
      });
    if (random.next() < 0.3)
      await same('correct', async (on) => {
        const day = { table: 'clicks', dayMs: Math.floor(part.time_to / DAY_MS) * DAY_MS };
        return [(await on.correct(batch.partition, day, fence)) > 0, await on.correct(batch.partition, day, fence)];
      });
  }
});
