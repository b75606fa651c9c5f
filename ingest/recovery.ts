/**
 * What a new owner of a partition does before it stores anything: it shuts out its predecessors, finds out whether Postgres knows
 * of all that they stored, and settles the batches that they left between BEFORE and AFTER.
 */

import { DAY_MS } from '#common/durations.ts';
import type { FrameHeader } from '#common/log/frame.ts';
import { FrameSet, type LaneMarks } from '#common/log/marks.ts';
import type { BatchEntry, Checkpoints, FrameRun, Lease } from './checkpoints.ts';
import type { NewestBatch, RawStore } from './raw-store.ts';
import type { Sink } from './sink.ts';

export interface RecoveryOptions {
  readonly lease: Lease;
  readonly entries: readonly BatchEntry[];
  readonly marks: readonly LaneMarks[];
  readonly sink: Sink;
  readonly store: RawStore;
  readonly checkpoints: Checkpoints;
  readonly log: (fields: object, line: string) => void;
}

/** @throws LeaseLost */
export async function recoverBatches(options: RecoveryOptions): Promise<void> {
  const { lease, entries, sink, store, log } = options;
  const inForce = await sink.fence(sink.nextNo, true);
  const newest = await sink.patiently(() => store.newestBatch(lease.partition, lease.lastBatchNo));
  const newestNo = Math.max(newest.raw, newest.rolled);
  // A clock ahead of ours may have numbered it.
  if (newestNo >= inForce) await sink.fence(newestNo + 1);
  if (newestNo > 0) await learnLostCommits(options, newest);
  if (lease.partition === 0) await withdrawUnnumbered(options);
  for (const entry of entries) {
    if (entry.is_partial) {
      sink.inDoubt.addBatch(entry);
      continue;
    }
    const isNewest = newestNo === 0 && entry.batch_no >= lease.lastBatchNo;
    const outcome = await sink.settle(entry, { isNewest });
    log({ batch_no: entry.batch_no, outcome }, 'a batch of an earlier owner was settled');
    if (outcome === 'stored') await sink.finish(entry, headersOf(entry, lease.partition));
  }
}

/**
 * What a version without numbers left in doubt is taken back, as its rows can't be looked for by a number: its frames are not
 * committed and come again. Whichever partition of the log they were of, its rows and cells stand in partition 0.
 */
async function withdrawUnnumbered({ lease, sink, store, checkpoints, log }: RecoveryOptions): Promise<void> {
  for (const { batch_id, parts } of await sink.patiently(() => checkpoints.unnumberedBatches())) {
    for (const part of parts) await sink.patiently(() => store.deleteUnnumbered(batch_id, part));
    for (const { table, time_from, time_to } of parts) {
      for (let day = Math.floor(time_from / DAY_MS) * DAY_MS; day <= time_to; day += DAY_MS) {
        await sink.correct({ table, dayMs: day });
      }
    }
    await sink.patiently(() => checkpoints.discardUnnumbered(lease, batch_id));
    log({ batch_id }, 'a batch that the version before had left in doubt was taken back');
  }
}

/**
 * ClickHouse has batches of which Postgres knows nothing: it was set back, or failed over to a copy that was behind. Of these only
 * the newest may lack rollups; and the frames of all of them come again, as the marks went back too.
 */
async function learnLostCommits(
  { lease, marks, sink, store, log }: RecoveryOptions,
  newest: NewestBatch,
): Promise<void> {
  const { partition, lastBatchNo } = lease;
  if (newest.raw >= newest.rolled) {
    for (const part of newest.parts) await sink.complete({ partition, batch_no: newest.raw }, part);
  } else {
    sink.counters.rollups_ahead++;
    log({ partition, batch_no: newest.rolled }, 'rollups have rows that the raw table has lost: rebuild the last days');
  }
  const stored = await sink.patiently(() => store.framesAbove(partition, lastBatchNo));
  const frames = stored.flatMap(({ producer_id, kind, ranges }) => {
    const known = marks.find((lane) => lane.producer_id === producer_id && lane.kind === kind);
    const set = new FrameSet(known?.mark, known?.ahead);
    const holes = ranges.flatMap(([from, to]) => set.holesIn(from, to));
    return holes.map(([from, to]): FrameRun => ({ producer_id, kind, from, to }));
  });
  // Written down, because the numbers go on above them: a later owner would not look for them any more.
  const entry = { batch_no: lastBatchNo + 1, frames, parts: [], stream_time: 0, is_partial: true };
  await sink.learn(entry, Math.max(newest.raw, newest.rolled));
  sink.counters.lost_commits++;
  log(
    { partition, known: lastBatchNo, stored: newest.raw },
    'Postgres has lost commits: what is stored above them is skipped',
  );
}

/** As much of the headers of a batch's frames as its entry tells. */
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
