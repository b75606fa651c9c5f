/**
 * The recovery by which a new owner of a partition starts: it shuts out its predecessors, finds out whether Postgres
 * knows everything that they stored, and reconciles the batches that they left between BEFORE and AFTER.
 */
import { DAY_MS } from '#common/durations.ts';
import type { FrameHeader } from '#common/log/frame.ts';
import { FrameSet, type LaneMarks, laneKey } from '#common/log/marks.ts';
import type { BatchEntry, FrameRun } from './checkpoints.ts';
import type { NewestBatch } from './raw-store.ts';
import type { Sink } from './sink.ts';

/**
 * Maximum frames whose rows are listed one by one. If ClickHouse is restored, too, before more than these are committed
 * again, the ledger counts their rows twice, and the audit reports them as missing.
 */
const framesListedMax = 1_000;

export interface RecoveryOptions {
  readonly sink: Sink;
  /** The batches and marks that Postgres has for the partition. */
  readonly entries: readonly BatchEntry[];
  readonly marks: readonly LaneMarks[];
}

/** @throws LeaseLost */
export async function recoverBatches({ sink, entries, marks }: RecoveryOptions): Promise<void> {
  const { held, numbers } = sink;
  const { store, log } = held.parts;
  const { partition, lastBatchNo } = held.lease.lease;
  const inForce = await numbers.raiseFence(numbers.nextNo(), true);
  const newest = await held.patiently(() => store.newestBatch(partition, lastBatchNo));
  const newestNo = Math.max(newest.raw, newest.rolled);
  // The previous owner's clock may have been ahead of ours when it numbered the batch.
  if (newestNo >= inForce) await numbers.raiseFence(newestNo + 1);
  if (newestNo > 0) await learnLostCommits(sink, marks, newest);
  if (partition === 0) await withdrawUnnumbered(sink);
  for (const entry of entries) {
    if (entry.is_partial) {
      held.inDoubt.addBatch(entry);
      continue;
    }
    const isNewest = newestNo === 0 && entry.batch_no >= lastBatchNo;
    const outcome = await sink.reconciler.reconcile(entry, { isNewest });
    log({ batch_no: entry.batch_no, outcome }, 'a batch of an earlier owner was reconciled');
    if (outcome === 'stored') await sink.finish(entry, headersOf(entry, partition));
  }
  numbers.noteRecovered();
}

/**
 * Withdraws the batches that a version without batch numbers left in doubt, because their rows cannot be looked up by a
 * number. Their frames are not committed and are delivered again. Their rows and cells are in partition 0, whichever
 * log partition their frames were in.
 */
async function withdrawUnnumbered({ held, reconciler }: Sink): Promise<void> {
  const { store, checkpoints, log } = held.parts;
  for (const { batch_id, parts } of await held.patiently(() => checkpoints.unnumberedBatches())) {
    for (const part of parts) await held.patiently(() => store.deleteUnnumbered(batch_id, part));
    for (const { table, time_from, time_to } of parts) {
      for (let day = Math.floor(time_from / DAY_MS) * DAY_MS; day <= time_to; day += DAY_MS) {
        await reconciler.correct({ table, dayMs: day });
      }
    }
    await held.patiently(() => checkpoints.discardUnnumbered(held.lease.lease, batch_id));
    log({ batch_id }, 'a batch that an earlier version left in doubt was withdrawn');
  }
}

/**
 * Handles batches in ClickHouse that Postgres does not know: Postgres was restored, or failed over to a replica that
 * lagged. Only the newest of them may lack rollups. The frames of all of them are delivered again, because the marks
 * went back too.
 */
async function learnLostCommits(sink: Sink, marks: readonly LaneMarks[], newest: NewestBatch): Promise<void> {
  const { held } = sink;
  const { store, log } = held.parts;
  const { partition, lastBatchNo } = held.lease.lease;
  if (newest.raw >= newest.rolled) {
    for (const part of newest.parts) {
      await sink.reconciler.completeRollups({ partition, batch_no: newest.raw }, part);
    }
  } else {
    held.counters.rollups_ahead++;
    log({ partition, batch_no: newest.rolled }, 'rollups have rows that the raw table has lost: rebuild the last days');
  }
  const stored = await held.patiently(() => store.framesAbove(partition, lastBatchNo));
  const known = new Map(marks.map((lane) => [laneKey(lane.producer_id, lane), lane]));
  const frames: FrameRun[] = [];
  // Their rows were stored again, by a replay.
  const committed: LaneMarks[] = [];
  for (const { producer_id, kind, ranges } of stored) {
    const lane = known.get(laneKey(producer_id, { kind, partition }));
    const set = new FrameSet(lane?.mark, lane?.ahead);
    const holes = ranges.flatMap(([from, to]) => set.holesIn(from, to));
    frames.push(...holes.map(([from, to]): FrameRun => ({ producer_id, kind, from, to })));
    const first = ranges[0]?.[0] ?? Number.POSITIVE_INFINITY;
    if (lane !== undefined && first <= set.top) committed.push(lane);
  }
  const lines = await held.patiently(() => store.rowsAbove(partition, lastBatchNo, committed));
  // Written to Postgres, because batch numbers continue above them: a later owner would not look for them.
  const newestNo = Math.max(newest.raw, newest.rolled);
  const byFrame = () => store.rowsByFrame(partition, [lastBatchNo + 1, newestNo], frames);
  const count = frames.reduce((sum, { from, to }) => sum + to - from + 1, 0);
  const rows = count > framesListedMax ? [] : await held.patiently(byFrame);
  const none = { parts: [], gone: [], stream_time: 0, is_again: false };
  const entry = { ...none, batch_no: lastBatchNo + 1, frames, stored: rows, is_partial: true };
  await sink.numbers.learn(entry, newestNo, lines);
  held.counters.lost_commits++;
  log(
    { partition, known: lastBatchNo, stored: newest.raw },
    'Postgres has lost commits: what is stored above them is skipped',
  );
}

/** The headers of a batch's frames, as far as its entry contains them. */
function headersOf(entry: BatchEntry, partition: number): { header: FrameHeader }[] {
  return entry.frames.flatMap((run: FrameRun) =>
    Array.from({ length: run.to - run.from + 1 }, (_, index) => ({
      header: {
        producer_id: run.producer_id,
        kind: run.kind,
        partition,
        frame_no: run.from + index,
        records: 0,
        written_at: 0,
        payloadBytes: 0,
      },
    })),
  );
}
