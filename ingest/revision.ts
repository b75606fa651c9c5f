/**
 * Carries out an operator's request to the owner of a partition after a store was restored: read the log again, store
 * the rows that ClickHouse lacks, and then compare the rollups of the affected days with their raw rows. The lease is
 * held throughout, so nothing else is stored for the partition in the meantime.
 */
import { kinds } from '#clickhouse/rollups.ts';
import { DAY_MS } from '#common/durations.ts';
import type { FrameHeader } from '#common/log/frame.ts';
import { FrameSet, laneKey, laneKeyOf } from '#common/log/marks.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import type { Revision } from './checkpoints.ts';
import { FrameQueue, type QueueLimits } from './frame-queue.ts';
import { HeldPartition } from './held-partition.ts';
import { NUMBER_MARGIN_MS } from './in-doubt-frames.ts';
import { LogReader } from './log-reader.ts';
import type { TableDay } from './raw-store.ts';
import { Sink } from './sink.ts';
import { newSinkCounters, type SinkCounters } from './sink-counters.ts';

export interface RevisionOptions {
  readonly revision: Revision;
  /** The sink that recovered the partition. */
  readonly sink: Sink;
  readonly limits: QueueLimits;
  readonly nats: NatsClient;
  /** Ends the revision at the next wait; the next owner then carries out the request. */
  readonly signal: AbortSignal;
}

/** @throws LeaseLost */
export async function revise(options: RevisionOptions): Promise<void> {
  const { revision, sink, signal } = options;
  const { held, reconciler } = sink;
  const { partition, parts } = held;
  const above = Math.max(0, (revision.replay_from ?? 0) - NUMBER_MARGIN_MS);
  const counters = newSinkCounters();
  if (revision.replay_from !== null) await replay(options, revision.replay_from, above, counters);
  const days = daysOf(revision) ?? (await held.patiently(() => parts.store.daysAbove(partition, above)));
  let cellsCorrected = 0;
  for (const day of days) {
    if (signal.aborted) return;
    cellsCorrected += await reconciler.correct(day);
  }
  if (signal.aborted) return;
  const done = { rowsStored: counters.rows, cellsCorrected };
  await held.patiently(() => parts.checkpoints.reviseDone(held.lease.lease, done));
  parts.log({ partition, ...done, days: days.length }, 'this partition has done what the operator asked');
}

function daysOf({ days_from, days_to }: Revision): TableDay[] | undefined {
  if (days_from === null || days_to === null) return undefined;
  const days: TableDay[] = [];
  for (let day = days_from; day < days_to; day += DAY_MS) for (const table of kinds) days.push({ table, dayMs: day });
  return days;
}

/**
 * Reads from the log's record of that time to the last record that exists when all before it were read. No clock
 * defines the end.
 */
async function replay(
  { limits, nats, signal, sink: recovered }: RevisionOptions,
  from: number,
  above: number,
  counters: SinkCounters,
): Promise<void> {
  const { held } = recovered;
  const { partition, parts, lease } = held;
  const { late, time } = parts;
  if (late) await held.patiently(() => late.rewind(partition, above));
  const marks = await held.patiently(() => parts.checkpoints.marks(partition));
  const committed = new Map(
    marks.map((lane) => [laneKey(lane.producer_id, lane), new FrameSet(lane.mark, lane.ahead)]),
  );
  const wasCommitted = (header: FrameHeader) => committed.get(laneKeyOf(header))?.has(header.frame_no) === true;
  const queue = new FrameQueue(limits, marks, time, () => reader.resume(), true);
  const sink = new Sink(new HeldPartition(parts, lease, queue, { sink: counters, failures: held.counters }));
  sink.numbers.follow(recovered.numbers);
  await sink.batches.begin(from);
  sink.held.inDoubt.addAll(above, held.inDoubt);
  let position = from;
  let isStoring = false;
  let framesWanted = Number.POSITIVE_INFINITY;
  const reader = new LogReader({
    nats,
    time,
    partition,
    storeTimes: parts.storeTimes,
    position: () => position,
    onFrame: (frame) => queue.push(frame),
    frames: { taken: () => queue.counters.frames, committed: () => queue.counters.committed_frames },
    onCaughtUp: () => {
      framesWanted = Math.min(framesWanted, queue.counters.frames);
      if (queue.isEmpty && !isStoring) queue.stop();
    },
    log: (line) => parts.log({ partition }, line),
  });
  const stop = () => queue.stop();
  signal.addEventListener('abort', stop, { once: true });
  reader.start();
  try {
    for (;;) {
      const frames = await queue.take();
      if (frames.length === 0) return;
      isStoring = true;
      // The ledger has the rows of committed frames already.
      for (const isReplay of [true, false]) {
        const some = frames.filter(({ header }) => wasCommitted(header) === isReplay);
        if (some.length === 0) continue;
        sink.isReplay = isReplay;
        const batch = await sink.batches.form(some);
        await sink.store(batch);
        position = Math.max(position, batch.streamTime);
      }
      isStoring = false;
      if (queue.counters.committed_frames >= framesWanted) return;
    }
  } finally {
    recovered.numbers.follow(sink.numbers);
    reader.stop();
    signal.removeEventListener('abort', stop);
  }
}
