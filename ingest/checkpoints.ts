/** The progress of ingest in Postgres: leases, marks, and batches that may be under way to ClickHouse. */
import type { Lane } from '#common/log/frame.ts';
import type { LaneMarks } from '#common/log/marks.ts';
import type { RecordKind } from '#common/log/record.ts';

/**
 * A mark that has not moved for this long is not read at a take-over, but when a frame of its lane comes. No mark is ever deleted: a
 * journal may return with an old copy of its disk, and a clock that was wrong for an hour must not make marks look old.
 */
export const marksReadDays = 30;

/** A lane within a given partition. */
export type LaneName = { readonly producer_id: string } & Pick<Lane, 'kind'>;

/** The right to write for a partition, until another process takes a later lease. */
export interface Lease {
  readonly partition: number;
  readonly epoch: number;
  /** After Postgres was restored to an earlier state, two owners may have the same epoch. */
  readonly owner: string;
  /** The largest batch number that Postgres knows. */
  readonly lastBatchNo: number;
}

/** Another process owns the partition now, or Postgres has lost commits made under the lease: everything must be read again. */
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
  /** It was reconciled: the rows that are stored stay, and its frames come again for the rest. */
  readonly is_partial: boolean;
}

/** A batch of a version without batch numbers, which may be in ClickHouse in whole or in part. */
export interface UnnumberedBatch {
  readonly batch_id: string;
  readonly parts: readonly BatchPart[];
}

/** What an operator asks the owner of a partition to do. */
export interface Revision {
  /** The log is read again from here (epoch ms), and what is missing is stored; null: no replay. */
  readonly replay_from: number | null;
  /** The days (UTC midnights, epoch ms, the last one exclusive) whose rollups are compared with raw rows; null: those of the replay. */
  readonly days_from: number | null;
  readonly days_to: number | null;
}

export interface RevisionDone {
  readonly rowsStored: number;
  readonly cellsCorrected: number;
}

/**
 * Each write of an owner checks its epoch in the same transaction. Every operation may fail with PostgresUnavailable, after which
 * it is unknown whether it took place; so each may be repeated.
 */
export interface Checkpoints {
  /** Takes a partition that is free, expired, or owned by an earlier life of the same owner. */
  acquire(partition: number, owner: string, seconds: number): Promise<Lease | undefined>;
  /**
   * @param decidedNo a batch number: this one and all below are decided.
   * @throws LeaseLost also when Postgres does not know that any more: it lost commits, or was restored.
   */
  renew(lease: Lease, seconds: number, decidedNo: number): Promise<void>;
  release(lease: Lease): Promise<void>;
  /** Stream time after which to begin reading; 0 if nothing was ever committed. */
  streamTime(partition: number): Promise<number>;
  /** Of lanes that had a commit within `marksReadDays`. */
  marks(partition: number): Promise<LaneMarks[]>;
  /** Marks of these lanes, however old; from now on `marks` returns them. @throws LeaseLost */
  recallMarks(lease: Lease, lanes: readonly LaneName[]): Promise<LaneMarks[]>;
  /** Batches between BEFORE and AFTER, oldest first. */
  batches(partition: number): Promise<BatchEntry[]>;
  /** Of all partitions: their rows are in partition 0. */
  unnumberedBatches(): Promise<UnnumberedBatch[]>;
  /** @throws LeaseLost */
  discardUnnumbered(lease: Lease, batchId: string): Promise<void>;
  /** Moves marks alone, past frames that no store has. @throws LeaseLost */
  moveMarks(lease: Lease, marks: readonly LaneMarks[]): Promise<void>;
  /**
   * BEFORE: from now on the batch may be in ClickHouse.
   * @param previousNo the last batch that was begun, which is finished.
   * @throws LeaseLost also when Postgres does not know that one: it was restored to an earlier state while the lease was held.
   */
  begin(lease: Lease, batch: BatchEntry, previousNo: number): Promise<void>;
  /**
   * AFTER: the batch is in ClickHouse, and its frames are committed.
   * @param finished partial batches whose last frames are committed with this one.
   * @throws LeaseLost also when Postgres does not know of the batch.
   */
  commit(
    lease: Lease,
    batchNo: number,
    streamTime: number,
    marks: readonly LaneMarks[],
    finished: readonly number[],
  ): Promise<void>;
  /** Removes a batch of which nothing is in ClickHouse, or whose frames are all committed. @throws LeaseLost */
  discard(lease: Lease, batchNo: number): Promise<void>;
  /**
   * Records frames whose rows are in ClickHouse although Postgres has lost that, as a partial batch; batch numbers continue
   * above the newest of them. @throws LeaseLost also when Postgres has lost more since the lease was taken.
   */
  learn(lease: Lease, batch: BatchEntry, newestNo: number): Promise<void>;
  /** Some of the batch is in ClickHouse and stays. @throws LeaseLost */
  keepPartial(lease: Lease, batchNo: number): Promise<void>;
  /** The id of this installation, made at the first call. */
  installationId(): Promise<string>;
  /** What an operator asked for and is not done yet. */
  revision(partition: number): Promise<Revision | undefined>;
  /** @throws LeaseLost */
  reviseDone(lease: Lease, done: RevisionDone): Promise<void>;
  /** The salt of a UTC day, made at the first call. Salts of days long past are deleted. */
  salt(day: number, forgetBefore: number): Promise<string>;
  /** @param holder whose journals report. @returns false when others report under the machine's name. */
  reportProgress(machine: string, committedTo: number, holder: string): Promise<boolean>;
}
