/** What ingest writes down of its own progress: leases, marks, and batches that may be on their way into ClickHouse. */
import type { LaneMarks } from '#common/log/marks.ts';
import type { RecordKind } from '#common/log/record.ts';

/** The right to write for a partition, for as long as nobody has taken a later one. */
export interface Lease {
  readonly partition: number;
  readonly epoch: number;
}

/** Somebody else owns the partition now. */
export class LeaseLost extends Error {
  constructor(lease: Lease) {
    super(`Partition ${lease.partition} was taken over from epoch ${lease.epoch}.`);
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
  readonly sha256: string;
  readonly token: string;
  /** Earliest and latest time of its rows, epoch ms. */
  readonly time_from: number;
  readonly time_to: number;
  /** At the first part of a batch, when something is needed. */
  readonly formed_with?: FormedWith;
}

/** What the frames of a batch do not tell, and forming it again must know. */
export interface FormedWith {
  /** Which look-ups found something. */
  readonly found?: string;
  /** Keys of rows that ClickHouse had refused. */
  readonly refused?: readonly string[];
}

export interface BatchEntry {
  readonly batch_id: string;
  readonly frames: readonly FrameRun[];
  readonly parts: readonly BatchPart[];
  readonly boot_id: string;
  readonly stream_time: number;
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
  marks(partition: number): Promise<LaneMarks[]>;
  /** Batches between BEFORE and AFTER, oldest first. */
  batches(partition: number): Promise<BatchEntry[]>;
  /**
   * BEFORE: from now on the batch may be in ClickHouse.
   * @returns false while another owner repairs one of its ClickHouse partitions; nothing was written then.
   * @throws LeaseLost
   */
  begin(lease: Lease, batch: BatchEntry): Promise<boolean>;
  /** AFTER: the batch is in ClickHouse, and its frames are committed. @throws LeaseLost */
  commit(lease: Lease, batchId: string, streamTime: number, marks: readonly LaneMarks[]): Promise<void>;
  /** The batch is not in ClickHouse, not a row of it: its frames come again. @throws LeaseLost */
  discard(lease: Lease, batchId: string): Promise<void>;
  /** Nothing is inserted for the batch any more until it was looked for. @throws LeaseLost */
  suspect(lease: Lease, batchId: string): Promise<void>;
  /**
   * Asks for a ClickHouse partition to be left alone by the other owners.
   * @returns whether it is: no other owner repairs it, and none of their batches is being inserted into it.
   * @throws LeaseLost
   */
  beginRepair(lease: Lease, clickhousePartition: string): Promise<boolean>;
  endRepair(lease: Lease, clickhousePartition: string): Promise<void>;
  endRepairs(lease: Lease): Promise<void>;
  /** The id of this installation, made when it is first asked for. */
  installationId(): Promise<string>;

  /** The salt of a UTC day, made by the first that asks. Those of days long past are forgotten. */
  salt(day: number, forgetBefore: number): Promise<string>;
  /** Marks of producers that nothing was heard of for so long are dropped: their journals are gone. */
  forgetMarks(partition: number, days: number): Promise<number>;
  reportProgress(machine: string, committedTo: number): Promise<void>;
}
