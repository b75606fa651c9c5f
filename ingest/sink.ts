/**
 * The sink stores a batch in ClickHouse exactly once. An insert without an answer may have taken effect, in the raw
 * table alone or in some of its rollups too, and may still take effect. So it is never simply repeated: `reconciler.ts`
 * finds out.
 *
 *   formed ──BEFORE──▶ inserting ──all parts answered──▶ stored ──AFTER + marks, one transaction──▶ done
 *                          │
 *                          └─ no answer ──▶ reconciled
 *                                             ├─ stored ──▶ stored
 *                                             ├─ absent ──▶ formed again under a higher number
 *                                             └─ partial ──▶ formed again without the rows that are stored
 *
 * A batch that is refused for its data is reconciled too; then the refused rows are found, and the batch is formed
 * again with dead letters in their place. A refusal that is not about single rows is retried until an operator has
 * acted.
 *
 * Invariants (see also `held-partition.ts`, `batch-numbers.ts`, `reconciler.ts`):
 * - A row is sent to ClickHouse only if its batch is in Postgres with its number and parts.
 * - A batch is begun only when the one before is stored, absent or partial.
 * - Marks move in the transaction that removes the batch, and only for frames whose rows are in ClickHouse.
 */
import type { BatchName } from '#clickhouse/rows.ts';
import type { FrameRange, LostRange } from '#common/log/marks.ts';
import { sleep } from '#common/time.ts';
import { BatchNumbers } from './batch-numbers.ts';
import type { BatchEntry, FrameRun, LostFrames } from './checkpoints.ts';
import { type FormedBatch, type FormedPart, type LogFrame, runsOf } from './formed-batch.ts';
import type { Gap } from './frame-queue.ts';
import type { HeldPartition } from './held-partition.ts';
import { PartitionBatches } from './partition-batches.ts';
import { Reconciler } from './reconciler.ts';
import { delayOf } from './retry-delay.ts';

type InsertState = 'stored' | 'in_doubt' | 'refused';

export class Sink {
  readonly held: HeldPartition;
  /** Whether it stores frames that were committed before. */
  isReplay = false;
  readonly numbers: BatchNumbers;
  readonly batches: PartitionBatches;
  readonly reconciler: Reconciler;
  /** Why ClickHouse refuses rows; empty if it does not. */
  refusal = '';

  constructor(held: HeldPartition) {
    this.held = held;
    this.numbers = new BatchNumbers(held);
    this.batches = new PartitionBatches(held, this.numbers);
    this.reconciler = new Reconciler(held, this.numbers);
  }

  /** Returns when the batch is stored and its frames are committed. @throws LeaseLost */
  async store(first: FormedBatch): Promise<void> {
    if (first.frames.length === 0) return;
    const { time, failpoints } = this.held.parts;
    const refused = new Set<string>();
    let batch = first;
    for (let tries = 0; ; tries++) {
      if (tries > 0 || this.numbers.isTooLow(batch.batch.batch_no)) {
        batch = await this.batches.form(batch.frames, refused.size > 0 ? { refused } : {});
      }
      const entry = entryOf(batch, this.isReplay);
      await this.numbers.begin(entry);
      failpoints.pass('before');
      const state = await this.#insertAll(batch);
      if (await this.#isStored(entry, state)) {
        this.refusal = '';
        failpoints.pass('inserted');
        await this.finish(entry, batch.frames);
        this.#count(batch);
        return;
      }
      const before = refused.size;
      if (state === 'refused') {
        for (const key of await this.batches.findRefusedRows(batch.frames, refused)) refused.add(key);
      }
      if (refused.size === before) await sleep(time, delayOf(tries));
    }
  }

  /**
   * Stores rows that belong to no frame as a separate batch. It is completely stored, in doubt, or refused.
   * @throws LeaseLost
   */
  async storeAside(partsOf: (batch: BatchName) => FormedPart[]): Promise<InsertState> {
    const { failpoints } = this.held.parts;
    const name = this.numbers.nextName();
    const parts = partsOf(name);
    const rows = parts.reduce((sum, part) => sum + part.rows, 0);
    const batch = { batch: name, frames: [], parts, streamTime: 0, rows, rejections: new Map() };
    const entry = entryOf(batch);
    await this.numbers.begin(entry);
    failpoints.pass('learned_before');
    const state = await this.#insertAll(batch);
    failpoints.pass('learned_inserted');
    const isStored = await this.#isStored(entry, state);
    if (isStored) await this.finish(entry, []);
    if (isStored || state === 'refused') this.refusal = '';
    return isStored ? 'stored' : state;
  }

  /** Writes AFTER and the marks. @throws LeaseLost */
  async finish(entry: BatchEntry, frames: readonly Pick<LogFrame, 'header'>[]): Promise<void> {
    const { parts, queue, lease, inDoubt } = this.held;
    const marks = queue.marksWith(frames);
    // Discarded together with the marks: a later discard might be done by an owner under which Postgres was restored.
    const finished = inDoubt.committed(runsOf(frames));
    await this.held.patiently(() =>
      parts.checkpoints.commit(lease.lease, entry.batch_no, entry.stream_time, marks, finished),
    );
    queue.committed(frames, marks);
    lease.noteDecided(entry.batch_no);
    parts.failpoints.pass('after');
  }

  /**
   * Moves marks past frames that exist in no store. Not to be called while a batch is being stored.
   * @throws LeaseLost
   */
  async closeGaps(gaps: readonly Gap[]): Promise<void> {
    const { parts, queue, lease, inDoubt, counters } = this.held;
    for (const { below, lost, marks } of gaps) {
      const { producer_id, kind, partition } = marks;
      const runOf = ([from, to]: FrameRange): FrameRun => ({ producer_id, kind, from, to });
      // Dropped repeats have no row, so for installs and events a missing row proves nothing; a damaged journal does.
      const missing: LostRange[] = kind === 'click' ? below.map(([from, to]) => [from, to, 0]) : [];
      const all = [...missing, ...lost].flatMap(([from, to, records]) =>
        inDoubt.othersOf([runOf([from, to])]).map((run): LostFrames => {
          const frames = framesIn([run]);
          return { ...run, records: frames === to - from + 1 ? Math.max(records, frames) : frames };
        }),
      );
      await this.held.patiently(() => parts.checkpoints.moveMarks(lease.lease, [marks], all));
      queue.committed([], [marks]);
      const closed = [...below, ...lost].map(([from, to]) => runOf([from, to]));
      for (const batchNo of inDoubt.committed(closed)) {
        await this.held.patiently(() => parts.checkpoints.discard(lease.lease, batchNo));
      }
      const [frames, missingFrames] = [framesIn(closed), framesIn(all)];
      counters.frames_closed += frames;
      counters.frames_missing += missingFrames;
      const fields = { producer_id, kind, partition, frames, missing: missingFrames };
      parts.log(fields, 'frames are gone from journals and log');
    }
  }

  async #isStored(entry: BatchEntry, state: InsertState): Promise<boolean> {
    if (state === 'stored') return true;
    return (await this.reconciler.reconcile(entry, { isEnded: state === 'refused' })) === 'stored';
  }

  async #insertAll(batch: FormedBatch): Promise<InsertState> {
    for (const part of batch.parts) {
      const state = await this.#insert(batch.batch, part);
      if (state !== 'stored') return state;
      this.held.parts.failpoints.pass('part_inserted');
    }
    return 'stored';
  }

  async #insert(batch: BatchName, part: FormedPart): Promise<InsertState> {
    const { lease, parts, failures } = this.held;
    await lease.ensureHeld();
    const outcome = await parts.store.insert(batch, part);
    if (outcome.kind === 'written') return 'stored';
    const { table, rows } = part;
    if (outcome.kind === 'fenced') {
      failures.refusals++;
      parts.log({ table, ...batch }, 'the fence is above this batch');
      return 'in_doubt';
    }
    const { code, message } = outcome;
    const isRefused = outcome.kind === 'refused';
    failures[isRefused ? 'refusals' : 'retries']++;
    const refusal = `ClickHouse refuses rows of ${table} (${code === 0 ? message.slice(0, 100) : `code ${code}`})`;
    const level = isRefused && this.refusal !== refusal ? 'warn' : undefined;
    parts.log({ table, rows, code, reason: message.slice(0, 300) }, 'an insert failed', level);
    if (!isRefused) return 'in_doubt';
    this.refusal = refusal;
    return outcome.isAboutData ? 'refused' : 'in_doubt';
  }

  #count(batch: FormedBatch): void {
    const { counters } = this.held;
    counters.batches++;
    counters.rows += batch.rows;
    for (const count of batch.rejections.values()) counters.dead_letters += count;
  }
}

function framesIn(runs: readonly FrameRun[]): number {
  return runs.reduce((sum, { from, to }) => sum + to - from + 1, 0);
}

function entryOf(batch: FormedBatch, isAgain = false): BatchEntry {
  return {
    batch_no: batch.batch.batch_no,
    frames: runsOf(batch.frames),
    parts: batch.parts.map(({ table, partition, rows, time_from, time_to }) => {
      return { table, partition, rows, time_from, time_to };
    }),
    stream_time: batch.streamTime,
    is_partial: false,
    is_again: isAgain,
    stored: [],
    // What a replay stores again offsets what is gone.
    gone: isAgain ? [] : (batch.gone ?? []),
  };
}
