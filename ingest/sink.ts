/**
 * The sink stores a batch in ClickHouse exactly once. An insert whose answer is missing may have taken place, in the raw table
 * alone or in some of its rollups too, and may still take place. So it is never simply repeated: first nothing of the batch can
 * come any more, then it is looked for, and only what is missing is added.
 *
 *   formed ──BEFORE──▶ inserting ──all parts answered──▶ stored ──AFTER + marks, one transaction──▶ done
 *                          │
 *                          └─ no answer ──▶ fenced off ──▶ looked for
 *                                                            ├─ all of its rows there: rollups filled in ──▶ stored
 *                                                            ├─ none: BEFORE withdrawn ──▶ formed again under a higher number
 *                                                            └─ some: rollups filled in, BEFORE kept as partial
 *                                                                     ──▶ formed again, without the rows that are there
 *
 * A batch that is refused for its data is looked for too; then the rows that are refused are found, and it is formed again with
 * dead letters in their place. A refusal that is not about single rows is repeated until an operator has helped.
 *
 * Must stay true:
 * - No row is sent to ClickHouse whose batch is not in Postgres with its number and parts.
 * - Of one partition, numbers only grow, and a batch is begun only when the one before is stored, withdrawn or partial. So
 *   the cells of rollups that the newest batch touches tell whether they have it.
 * - Nothing is looked for before the fence is above the batch.
 * - Marks move in the transaction that removes the batch, and only for frames whose rows are in ClickHouse.
 * - Nothing is sent while the lease is not surely held.
 * - ClickHouse or Postgres being unreachable is waited for, without a limit and with the batch in memory; nothing else is read then.
 */
import { ClickHouseFailure } from '#clickhouse/client.ts';
import type { BatchName } from '#clickhouse/rows.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { sleep, type Time } from '#common/time.ts';
import type { LateEvents } from './attribution/late-events.ts';
import type { FormChanges } from './batch-builder.ts';
import type { BatchFormer } from './batch-former.ts';
import { type BatchEntry, type BatchPart, type Checkpoints, type FrameRun, LeaseLost } from './checkpoints.ts';
import type { Failpoints } from './failpoints.ts';
import { type FormedBatch, type FormedPart, type LogFrame, runsOf } from './formed-batch.ts';
import type { FrameQueue, Gap } from './frame-queue.ts';
import type { HeldLease } from './held-lease.ts';
import { InDoubtFrames } from './in-doubt-frames.ts';
import type { Fence, RawStore, TableDay } from './raw-store.ts';
import type { RefusedRowsSearch } from './refused-rows.ts';
import { delayOf } from './retry-delay.ts';
import type { SinkCounters } from './sink-counters.ts';

export interface SinkParts {
  readonly checkpoints: Checkpoints;
  readonly store: RawStore;
  readonly former: Pick<BatchFormer, 'begin' | 'form'>;
  readonly refusedRows: RefusedRowsSearch;
  readonly failpoints: Failpoints;
  /** What became known of events that came before their install. */
  readonly late?: Pick<LateEvents, 'begin' | 'find' | 'look' | 'partsOf' | 'passed' | 'rewind'>;
  readonly time: Time;
  readonly log: (fields: object, line: string) => void;
}

type InsertState = 'stored' | 'in_doubt' | 'refused';
export type Settled = 'stored' | 'partial' | 'absent';

export class Sink {
  readonly counters: SinkCounters;
  /** Why ClickHouse takes no rows, while it refuses them; empty otherwise. */
  refusal = '';
  readonly #parts: SinkParts;
  readonly #lease: HeldLease;
  readonly #queue: FrameQueue;
  /** Of which rows may be stored although no mark says so. */
  readonly inDoubt: InDoubtFrames;
  /** The largest number that was given to a batch. */
  #lastNo: number;
  /** The largest number that was written down: one that is not above it comes too late. */
  #begunNo: number;
  /** Batches below it are refused by ClickHouse. */
  #fence = 0;
  /** By which ClickHouse knows this owner. An epoch alone may come again after Postgres was set back. */
  #name: string;

  constructor(parts: SinkParts, lease: HeldLease, queue: FrameQueue, counters: SinkCounters) {
    this.#parts = parts;
    this.#lease = lease;
    this.#queue = queue;
    this.counters = counters;
    this.inDoubt = new InDoubtFrames(lease.lease.partition);
    this.#lastNo = lease.lease.lastBatchNo;
    this.#begunNo = lease.lease.lastBatchNo;
    const { owner, epoch } = lease.lease;
    this.#name = `${owner} ${epoch} ${parts.time.now()}`;
  }

  get #partition(): number {
    return this.#lease.lease.partition;
  }

  get #inForce(): Fence {
    return { batchNoMin: this.#fence, owner: this.#name };
  }

  /** Goes on with the numbers and the fence of another sink of the same lease. */
  follow(other: Sink): void {
    [this.#lastNo, this.#begunNo, this.#fence] = [other.#lastNo, other.#begunNo, other.#fence];
    this.#name = other.#name;
  }

  /** Learns what others have stored of this partition. @param untilMs as `FirstSeen.load` takes it. @throws LeaseLost */
  async begin(untilMs: number): Promise<void> {
    await this.patiently(() => this.#parts.former.begin(this.#partition, untilMs));
  }

  /** Under the next number, without frames that turn out to be committed: perhaps none is left. @throws LeaseLost */
  async form(frames: readonly LogFrame[], changes: FormChanges = {}): Promise<FormedBatch> {
    this.#parts.failpoints.pass('taken');
    await this.#recallMarks(frames);
    const fresh = this.#queue.withoutCommitted(frames);
    const batch = await this.patiently(async () => {
      const stored = await this.inDoubt.storedOf(fresh, this.#parts.store);
      const all = stored === undefined ? changes : { ...changes, stored };
      this.counters.stored_before += stored?.size ?? 0;
      return await this.#parts.former.form(this.#nextName(), fresh, all);
    });
    this.#parts.failpoints.pass('formed');
    return batch;
  }

  /** Lanes that are new to this owner may have been silent for so long that their marks were not read. @throws LeaseLost */
  async #recallMarks(frames: readonly LogFrame[]): Promise<void> {
    const lanes = this.#queue.lanesToLearn(frames);
    if (lanes.length === 0) return;
    const marks = await this.patiently(() => this.#parts.checkpoints.recallMarks(this.#lease.lease, lanes));
    this.#queue.learn(this.#partition, lanes, marks);
    this.counters.marks_recalled += marks.length;
  }

  /** Returns when the batch is stored and its frames are committed. @throws LeaseLost */
  async store(first: FormedBatch): Promise<void> {
    if (first.frames.length === 0) return;
    const refused = new Set<string>();
    let batch = first;
    for (let tries = 0; ; tries++) {
      // A batch that was formed while the one before had to be formed again has too low a number.
      if (tries > 0 || batch.batch.batch_no < this.#fence || batch.batch.batch_no <= this.#begunNo) {
        batch = await this.form(batch.frames, refused.size > 0 ? { refused } : {});
      }
      const entry = await this.#before(batch);
      this.#parts.failpoints.pass('before');
      const outcome = await this.#insertAll(batch);
      if (outcome === 'stored' || (await this.settle(entry, { isEnded: outcome === 'refused' })) === 'stored') {
        this.refusal = '';
        this.#parts.failpoints.pass('inserted');
        await this.finish(entry, batch.frames);
        this.#count(batch);
        return;
      }
      const before = refused.size;
      if (outcome === 'refused') for (const key of await this.#refusedRowsOf(batch.frames, refused)) refused.add(key);
      if (refused.size === before) await sleep(this.#parts.time, delayOf(tries));
    }
  }

  /** Stores rows that are of no frame, as a batch of their own: whole, or it is in doubt or refused. @throws LeaseLost */
  async storeAside(partsOf: (batch: BatchName) => FormedPart[]): Promise<InsertState> {
    const { failpoints } = this.#parts;
    const name = this.#nextName();
    const parts = partsOf(name);
    const rows = parts.reduce((sum, part) => sum + part.rows, 0);
    const batch = { batch: name, frames: [], parts, streamTime: 0, rows, rejections: new Map() };
    const entry = await this.#before(batch);
    failpoints.pass('learned_before');
    const outcome = await this.#insertAll(batch);
    failpoints.pass('learned_inserted');
    const isEnded = outcome === 'refused';
    const isStored = outcome === 'stored' || (await this.settle(entry, { isEnded })) === 'stored';
    if (isStored) await this.finish(entry, []);
    if (isStored || isEnded) this.refusal = '';
    return isStored ? 'stored' : outcome;
  }

  /** Rows that ClickHouse refuses, beside those that are known. */
  async #refusedRowsOf(frames: readonly LogFrame[], refused: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const { former, refusedRows, log } = this.#parts;
    const found = await this.patiently(async () => {
      const batch = await former.form(this.#nextName(), frames, { refused, isPlaced: true });
      return await refusedRows.find(batch.batch, batch.parts);
    });
    log({ rows: found.size }, 'ClickHouse refuses rows: they become dead letters');
    return found;
  }

  /** Moves marks past frames that exist in no store. Not while a batch is being stored. @throws LeaseLost */
  async closeGaps(gaps: readonly Gap[]): Promise<void> {
    const { checkpoints, log } = this.#parts;
    const { lease } = this.#lease;
    for (const { holes, marks } of gaps) {
      const { producer_id, kind, partition } = marks;
      const runs = holes.map(([from, to]): FrameRun => ({ producer_id, kind, from, to }));
      // Of repeats that were dropped there is no row, so installs and events don't say what is missing.
      const missing = kind === 'click' ? this.inDoubt.countOthers(runs) : 0;
      await this.patiently(() => checkpoints.moveMarks(lease, [marks]));
      this.#queue.committed([], [marks]);
      for (const batchNo of this.inDoubt.committed(runs)) {
        await this.patiently(() => checkpoints.discard(lease, batchNo));
      }
      const frames = holes.reduce((sum, [from, to]) => sum + to - from + 1, 0);
      this.counters.frames_closed += frames;
      this.counters.frames_missing += missing;
      log({ producer_id, kind, partition, frames, missing }, 'frames are gone from journals and log');
    }
  }

  /** AFTER and the marks. @throws LeaseLost */
  async finish(entry: BatchEntry, frames: readonly Pick<LogFrame, 'header'>[]): Promise<void> {
    const marks = this.#queue.marksWith(frames);
    const { checkpoints } = this.#parts;
    const { lease } = this.#lease;
    // With the marks: discarded later, it might be by an owner under which Postgres has gone back.
    const finished = this.inDoubt.committed(runsOf(frames));
    await this.patiently(() => checkpoints.commit(lease, entry.batch_no, entry.stream_time, marks, finished));
    this.#queue.committed(frames, marks);
    this.#parts.failpoints.pass('after');
  }

  /**
   * From here on ClickHouse takes no batch of the partition below the number, and nothing at all from an earlier owner.
   * @param isNewOwner at the first time.
   * @throws LeaseLost
   */
  async fence(batchNoMin: number, isNewOwner = false): Promise<number> {
    const { store } = this.#parts;
    const fence = await this.patiently(() => store.fence(this.#partition, batchNoMin, this.#name, isNewOwner));
    if (fence.owner !== this.#name) throw new LeaseLost(this.#lease.lease, 'has the fence of another owner');
    this.#fence = fence.batchNoMin;
    this.#lastNo = Math.max(this.#lastNo, this.#fence - 1);
    return this.#fence;
  }

  /** Whether the rollups of a day of this partition were right, and makes them so. @returns how many cells were wrong. @throws LeaseLost */
  async correct(day: TableDay): Promise<number> {
    let tries = 0;
    return await this.patiently(async () => {
      if (tries++ > 0) await this.fence(this.#fence + 1);
      return await this.#parts.store.correct(this.#partition, day, this.#inForce);
    });
  }

  /** Frames of which rows are stored although Postgres has lost that: they stay in doubt until they are committed. @throws LeaseLost */
  async learn(entry: BatchEntry, newestNo: number): Promise<void> {
    await this.patiently(() => this.#parts.checkpoints.learn(this.#lease.lease, entry, newestNo));
    this.#begunNo = Math.max(this.#begunNo, newestNo);
    this.inDoubt.addBatch(entry);
  }

  /** The number that the next batch gets at least: above all that were given, and about the time. */
  get nextNo(): number {
    return Math.max(this.#lastNo + 1, this.#parts.time.now());
  }

  /**
   * Finds out what became of a batch by looking, and completes its rollups.
   * @param isEnded nothing of it is on its way any more.
   * @param isNewest of its partition; an older one has its rollups, or they were completed before the next was begun.
   * @throws LeaseLost
   */
  async settle(entry: BatchEntry, { isEnded = false, isNewest = true } = {}): Promise<Settled> {
    const { checkpoints, log } = this.#parts;
    const { lease } = this.#lease;
    const batch = { partition: this.#partition, batch_no: entry.batch_no };
    this.counters.in_doubt++;
    if (!isEnded && this.#fence <= entry.batch_no) await this.fence(entry.batch_no + 1);
    let there = 0;
    let isWhole = true;
    for (const part of entry.parts) {
      const rows = await this.patiently(() => this.#parts.store.rowsOf(batch, part));
      if (isNewest && rows > 0) await this.complete(batch, part);
      else if (isNewest) await this.#lookAhead(batch, part);
      there += rows;
      isWhole &&= rows === part.rows;
    }
    const outcome = isWhole ? 'stored' : there > 0 ? 'partial' : 'absent';
    if (outcome === 'absent') {
      await this.patiently(() => checkpoints.discard(lease, entry.batch_no));
      this.counters.in_doubt_discarded++;
    } else if (outcome === 'partial') {
      await this.patiently(() => checkpoints.keepPartial(lease, entry.batch_no));
      this.inDoubt.addBatch(entry);
      this.counters.in_doubt_partial++;
    } else this.counters.in_doubt_stored++;
    log({ batch_no: entry.batch_no, outcome }, 'a batch in doubt was looked for');
    return outcome;
  }

  /** Gives every rollup what it misses of a batch, the newest, whose rows are there. @throws LeaseLost */
  async complete(batch: BatchName, part: BatchPart): Promise<void> {
    const { store } = this.#parts;
    for (let tries = 0; ; tries++) {
      // What was begun may still run or not have arrived yet: under a higher fence it does nothing. Or another owner's may be up.
      if (tries > 0) await this.fence(this.#fence + 1);
      const missing = await this.patiently(() => store.rollupsWithout(batch, part));
      for (const rollup of missing) {
        await this.#lease.ensureHeld();
        try {
          await store.fillIn(batch, part, rollup, this.#inForce);
          this.counters.filled_rollups++;
        } catch (error) {
          if (!(error instanceof ClickHouseFailure)) throw error;
          this.counters.retries++;
          await sleep(this.#parts.time, delayOf(tries));
        }
      }
      if (missing.length === 0) return;
    }
  }

  /** A rollup gets a batch after the raw table. What has it alone was lost by the raw table, and only a rebuild helps. */
  async #lookAhead(batch: BatchName, part: BatchPart): Promise<void> {
    const { store, log } = this.#parts;
    const without = await this.patiently(() => store.rollupsWithout(batch, part));
    const ahead = store.rollupsOf(part.table).filter((rollup) => !without.includes(rollup));
    if (ahead.length === 0) return;
    this.counters.rollups_ahead += ahead.length;
    const days = [part.time_from, part.time_to].map((ms) => new Date(ms).toISOString().slice(0, 10));
    log(
      { ...batch, rollups: ahead, from: days[0], to: days[1] },
      'rollups have rows that the raw table has lost: rebuild these days',
    );
  }

  async #before(batch: FormedBatch): Promise<BatchEntry> {
    const { checkpoints } = this.#parts;
    const entry: BatchEntry = {
      batch_no: batch.batch.batch_no,
      frames: runsOf(batch.frames),
      parts: batch.parts.map(({ table, partition, rows, time_from, time_to }) => {
        return { table, partition, rows, time_from, time_to };
      }),
      stream_time: batch.streamTime,
      is_partial: false,
    };
    await this.patiently(() => checkpoints.begin(this.#lease.lease, entry, this.#begunNo));
    this.#begunNo = entry.batch_no;
    return entry;
  }

  async #insertAll(batch: FormedBatch): Promise<InsertState> {
    for (const part of batch.parts) {
      const state = await this.#insert(batch.batch, part);
      if (state !== 'stored') return state;
      this.#parts.failpoints.pass('part_inserted');
    }
    return 'stored';
  }

  async #insert(batch: BatchName, part: FormedPart): Promise<InsertState> {
    await this.#lease.ensureHeld();
    const outcome = await this.#parts.store.insert(batch, part);
    if (outcome.kind === 'written') return 'stored';
    const { table, rows } = part;
    if (outcome.kind === 'fenced') {
      this.counters.refusals++;
      this.#parts.log({ table, ...batch }, 'the fence is above this batch');
      return 'in_doubt';
    }
    const { code, message } = outcome;
    this.counters[outcome.kind === 'refused' ? 'refusals' : 'retries']++;
    this.#parts.log({ table, rows, code, reason: message.slice(0, 300) }, 'an insert failed');
    if (outcome.kind === 'unknown') return 'in_doubt';
    this.refusal = `ClickHouse refuses rows of ${table} (code ${code})`;
    return outcome.isAboutData ? 'refused' : 'in_doubt';
  }

  #nextName(): BatchName {
    this.#lastNo = this.nextNo;
    return { partition: this.#partition, batch_no: this.#lastNo };
  }

  /** Runs a step until the server it needs is there. A step may run several times, so each is written to stand that. */
  async patiently<T>(step: () => Promise<T>): Promise<T> {
    for (let tries = 0; ; tries++) {
      await this.#lease.ensureHeld();
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof PostgresUnavailable) && !(error instanceof ClickHouseFailure)) throw error;
        this.counters.retries++;
        this.#parts.log({ reason: error.message.slice(0, 300) }, 'a server is unreachable');
        await sleep(this.#parts.time, delayOf(tries));
      }
    }
  }

  #count(batch: FormedBatch): void {
    this.counters.batches++;
    this.counters.rows += batch.rows;
    for (const count of batch.rejections.values()) this.counters.dead_letters += count;
  }
}
