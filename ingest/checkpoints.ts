/** The progress of ingest in Postgres: leases, marks, and batches that may be in flight to ClickHouse. */
import type { Lane } from '#common/log/frame.ts';
import type { LaneMarks } from '#common/log/marks.ts';
import type { RecordKind } from '#common/log/record.ts';

/**
 * A mark that has not moved for this many days is read not at a takeover, but when a frame of its lane arrives. No mark
 * is ever deleted: a journal may return with an old copy of its disk, and a clock that was wrong for an hour must not
 * make marks look old.
 */
export const marksReadDays = 30;

/** A lane within a given partition. */
export type LaneName = { readonly producer_id: string } & Pick<Lane, 'kind'>;

/** The right to write for a partition, until another process acquires a later lease. */
export interface Lease {
  readonly partition: number;
  readonly epoch: number;
  /** After Postgres was restored to an earlier state, two owners may have the same epoch. */
  readonly owner: string;
  /** The largest batch number in Postgres. */
  readonly lastBatchNo: number;
}

/**
 * Another process owns the partition, or Postgres has lost commits made under the lease: everything must be read again.
 */
export class LeaseLost extends Error {
  constructor(lease: Pick<Lease, 'partition' | 'epoch'>, reason = 'was taken over') {
    super(`Partition ${lease.partition} ${reason} from epoch ${lease.epoch}.`);
    this.name = 'LeaseLost';
  }
}

export interface FrameRun {
  readonly producer_id: string;
  readonly kind: RecordKind;
  readonly from: number;
  readonly to: number;
}

export interface LostFrames extends FrameRun {
  /** At least. */
  readonly records: number;
}

export interface BatchPart {
  readonly table: string;
  /** ClickHouse's partition, YYYYMM. */
  readonly partition: string;
  readonly rows: number;
  /** Earliest and latest time of its rows, epoch ms. */
  readonly time_from: number;
  readonly time_to: number;
}

/** A batch that may be in ClickHouse, in whole or in part. */
export interface BatchEntry {
  readonly batch_no: number;
  readonly frames: readonly FrameRun[];
  readonly parts: readonly BatchPart[];
  readonly stream_time: number;
  /** Whether it was reconciled: its stored rows stay, and its frames are delivered again for the rest. */
  readonly is_partial: boolean;
  /** Whether its frames were committed before: a replay stores what ClickHouse has lost. */
  readonly is_again: boolean;
  /** Of a partial batch: its rows that the ledger counts although their frames are not committed. */
  readonly stored: readonly FrameRows[];
  /** Rows that partial batches had of its frames, and that a restore has taken: this batch stores them again. */
  readonly gone: readonly LedgerLine[];
}

/** Rows of a table and month in the batches of a day; see `pg-migrations/0960_ledger.sql`. */
export interface LedgerLine extends BatchPart {
  /** Of these, the rows that a replay stored again. */
  readonly rows_again: number;
  readonly batch_from: number;
  readonly batch_to: number;
}

/** Those of one frame. */
export interface FrameRows extends LedgerLine {
  readonly producer_id: string;
  readonly kind: RecordKind;
  readonly frame_no: number;
}

/** A batch of a version without batch numbers, which may be wholly or partly in ClickHouse. */
export interface UnnumberedBatch {
  readonly batch_id: string;
  readonly parts: readonly BatchPart[];
}

/** An operator's request to the owner of a partition. */
export interface Revision {
  /** The log is read again from this time (epoch ms), and missing records are stored; null: no replay. */
  readonly replay_from: number | null;
  /**
   * The days (UTC midnights, epoch ms, the last one exclusive) for which rollups are compared with raw rows; null: those
   * of the replay.
   */
  readonly days_from: number | null;
  readonly days_to: number | null;
}

export interface RevisionDone {
  readonly rowsStored: number;
  readonly cellsCorrected: number;
}

/** Times are by the clock of the machine, epoch ms. */
export interface MachineProgress {
  readonly machine: string;
  readonly committedTo: number;
  /** Absent from earlier versions. */
  readonly sentAt: number | undefined;
  /** Identifies the journals that report. */
  readonly holder: string;
}

/**
 * Each write of an owner checks its epoch in the same transaction. Every operation may fail with PostgresUnavailable;
 * it is then unknown whether it took effect, so each can be repeated safely.
 */
export interface Checkpoints {
  /** Acquires a partition that is free, expired, or owned by an earlier run of the same owner. */
  acquire(partition: number, owner: string, seconds: number): Promise<Lease | undefined>;
  /**
   * @param decidedNo this batch number and all below are decided.
   * @throws LeaseLost also if Postgres no longer knows that: it lost commits, or was restored.
   */
  renew(lease: Lease, seconds: number, decidedNo: number): Promise<void>;
  release(lease: Lease): Promise<void>;
  /** Stream time from which to read; 0 if nothing was ever committed. */
  streamTime(partition: number): Promise<number>;
  /** Marks of lanes that had a commit within `marksReadDays`. */
  marks(partition: number): Promise<LaneMarks[]>;
  /** Marks of these lanes, however old; from then on, `marks` returns them too. @throws LeaseLost */
  recallMarks(lease: Lease, lanes: readonly LaneName[]): Promise<LaneMarks[]>;
  /** Batches between BEFORE and AFTER, oldest first. */
  batches(partition: number): Promise<BatchEntry[]>;
  /** For all partitions: their rows are in partition 0. */
  unnumberedBatches(): Promise<UnnumberedBatch[]>;
  /** @throws LeaseLost */
  discardUnnumbered(lease: Lease, batchId: string): Promise<void>;
  /** Only moves marks, past frames that no store has, and counts those that are lost. @throws LeaseLost */
  moveMarks(lease: Lease, marks: readonly LaneMarks[], lost?: readonly LostFrames[]): Promise<void>;
  /**
   * BEFORE: from now on the batch may be in ClickHouse.
   * @param previousNo the last batch that was begun, which is finished.
   * @throws LeaseLost also if Postgres does not know that batch: it was restored to an earlier state while the lease
   * was held.
   */
  begin(lease: Lease, batch: BatchEntry, previousNo: number): Promise<void>;
  /**
   * AFTER: the batch is in ClickHouse, and its frames are committed.
   * @param finished partial batches whose last frames are committed with this one.
   * @throws LeaseLost also if Postgres does not know the batch.
   */
  commit(
    lease: Lease,
    batchNo: number,
    streamTime: number,
    marks: readonly LaneMarks[],
    finished: readonly number[],
  ): Promise<void>;
  /** Removes a batch that has no rows in ClickHouse, or whose frames are all committed. @throws LeaseLost */
  discard(lease: Lease, batchNo: number): Promise<void>;
  /**
   * Records frames as a partial batch, if their rows are in ClickHouse but Postgres has lost them; batch numbers
   * continue above the newest of them.
   * @param stored all rows above the last batch that Postgres knows.
   * @throws LeaseLost also if Postgres has lost more since the lease was acquired.
   */
  learn(lease: Lease, batch: BatchEntry, newestNo: number, stored: readonly LedgerLine[]): Promise<void>;
  /** Some rows of the batch are in ClickHouse and stay: `stored`. @throws LeaseLost */
  keepPartial(lease: Lease, batchNo: number, stored: readonly FrameRows[]): Promise<void>;
  /**
   * Forgets lines of a table whose records retention has removed: older than a time of ClickHouse, and than an age by
   * the clock of Postgres.
   */
  forgetLedger(table: string, before: number, ageMs: number): Promise<void>;
  /** The id of this installation, created by the first call. */
  installationId(): Promise<string>;
  /** An operator's request that is not done yet. */
  revision(partition: number): Promise<Revision | undefined>;
  /** @throws LeaseLost */
  reviseDone(lease: Lease, done: RevisionDone): Promise<void>;
  /** The salt of a UTC day, created by the first call. Salts of days that are older than `keptDays` are deleted. */
  salt(day: number, keptDays: number): Promise<string>;
  /**
   * Stores the progress of a machine by the clock of Postgres if the machine's clock is wrong.
   * @returns how far that clock is ahead, in ms; `undefined` if other journals report under the machine's name.
   */
  reportProgress(report: MachineProgress): Promise<number | undefined>;
}
