/** What ingest writes down of its own progress: leases, marks, and batches that may be on their way into ClickHouse. */
import type { Lane } from '#common/log/frame.ts';
import type { LaneMarks } from '#common/log/marks.ts';
import type { RecordKind } from '#common/log/record.ts';

/**
 * A mark that did not move for so long is not read at a take-over, but when a frame of its lane comes. None is ever deleted: a
 * journal may come back with an old copy of its disk, and a clock that was wrong for an hour must not make marks look old.
 */
export const marksReadDays = 30;

/**
 * A partition beyond LOG_PARTITIONS keeps its owner for so long after its last record: only its owner gives an event of it the link of
 * an install that comes later, and an app's attribution window is at most 90 days.
 */
export const learningDays = 91;

/** A lane of a partition that is known. */
export type LaneName = { readonly producer_id: string } & Pick<Lane, 'kind'>;

/** The right to write for a partition, for as long as no other process has taken a later one. */
export interface Lease {
  readonly partition: number;
  readonly epoch: number;
  /** Who holds it: after Postgres went back to an earlier state, two owners may have the same epoch. */
  readonly owner: string;
  /** The largest number of a batch that Postgres knows of. */
  readonly lastBatchNo: number;
}

/** Another process owns the partition now, or Postgres has lost what was committed under the lease: all is to be learned again. */
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
  /** It was looked for: what is there of it stays, and its frames come again for the rest. */
  readonly is_partial: boolean;
}

/** A batch of a version that gave them no numbers, and that may be in ClickHouse in whole or in part. */
export interface UnnumberedBatch {
  readonly batch_id: string;
  readonly parts: readonly BatchPart[];
}

/** What an operator asks the owner of a partition to do. */
export interface Revision {
  /** The log is read again from here (epoch ms), and what is missing is stored; null: it is not. */
  readonly replay_from: number | null;
  /** The days (UTC midnights, epoch ms, the last one left out) whose rollups are held against raw rows; null: those of the replay. */
  readonly days_from: number | null;
  readonly days_to: number | null;
}

export interface RevisionDone {
  readonly rowsStored: number;
  readonly cellsCorrected: number;
}

/**
 * Each write of an owner checks its epoch in the same transaction. Every operation may fail with PostgresUnavailable, after which
 * it is not known whether it took place; so each may be repeated.
 */
export interface Checkpoints {
  /** Takes a partition that is free, expired, or owned by an earlier life of the same owner. */
  acquire(partition: number, owner: string, seconds: number): Promise<Lease | undefined>;
  /** @throws LeaseLost */
  renew(lease: Lease, seconds: number): Promise<void>;
  release(lease: Lease): Promise<void>;
  /** Stream time to begin reading after; 0 if nothing was ever committed. */
  streamTime(partition: number): Promise<number>;
  /** Of lanes that had a commit within `marksReadDays`. */
  marks(partition: number): Promise<LaneMarks[]>;
  /** Marks of these lanes however old they are; from now on `marks` has them. @throws LeaseLost */
  recallMarks(lease: Lease, lanes: readonly LaneName[]): Promise<LaneMarks[]>;
  /** Batches between BEFORE and AFTER, oldest first. */
  batches(partition: number): Promise<BatchEntry[]>;
  /** Of all partitions: their rows stand in partition 0. */
  unnumberedBatches(): Promise<UnnumberedBatch[]>;
  /** @throws LeaseLost */
  discardUnnumbered(lease: Lease, batchId: string): Promise<void>;
  /** Marks alone, of frames that are gone for good. @throws LeaseLost */
  moveMarks(lease: Lease, marks: readonly LaneMarks[]): Promise<void>;
  /**
   * BEFORE: from now on the batch may be in ClickHouse.
   * @param previousNo the last batch that was begun, which is finished.
   * @throws LeaseLost also when Postgres does not know that: it has gone back to an earlier state while the lease was held.
   */
  begin(lease: Lease, batch: BatchEntry, previousNo: number): Promise<void>;
  /**
   * AFTER: the batch is in ClickHouse, and its frames are committed.
   * @param finished batches that were there in part, and of which every frame is committed with this one.
   * @throws LeaseLost also when Postgres does not know of the batch.
   */
  commit(
    lease: Lease,
    batchNo: number,
    streamTime: number,
    marks: readonly LaneMarks[],
    finished: readonly number[],
  ): Promise<void>;
  /** Nothing of the batch is in ClickHouse, or all frames of it are committed: it is forgotten. @throws LeaseLost */
  discard(lease: Lease, batchNo: number): Promise<void>;
  /**
   * Frames whose rows stand in ClickHouse although Postgres has lost that are written down as a batch that is there in part, and
   * the numbers of batches go on above the newest of them. @throws LeaseLost
   */
  learn(lease: Lease, batch: BatchEntry, newestNo: number): Promise<void>;
  /** Some of the batch is in ClickHouse and stays. @throws LeaseLost */
  keepPartial(lease: Lease, batchNo: number): Promise<void>;
  /** The id of this installation, made when it is first asked for. */
  installationId(): Promise<string>;
  /** What is asked for and not done yet. */
  revision(partition: number): Promise<Revision | undefined>;
  /** @throws LeaseLost */
  reviseDone(lease: Lease, done: RevisionDone): Promise<void>;
  /** The salt of a UTC day, made by the first that asks. Those of days long past are forgotten. */
  salt(day: number, forgetBefore: number): Promise<string>;
  reportProgress(machine: string, committedTo: number): Promise<void>;
}
