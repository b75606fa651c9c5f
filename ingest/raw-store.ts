/**
 * What ingest needs of ClickHouse to store batches: the raw tables and their rollups. An insert of one part is all or nothing
 * in each table that it reaches; it reaches the raw table first and then the rollups.
 */
import type { BatchName } from '#clickhouse/rows.ts';
import type { FrameRange } from '#common/log/marks.ts';
import type { RecordKind } from '#common/log/record.ts';
import type { BatchPart } from './checkpoints.ts';

export interface SentPart extends BatchPart {
  readonly columns: readonly string[];
  readonly body: Uint8Array;
}

export type InsertOutcome =
  | { readonly kind: 'written' }
  /** Unknown whether it took place, or will. */
  | { readonly kind: 'unknown'; readonly code: number; readonly message: string }
  /** ClickHouse refused it: for its data, or because of the server's state. */
  | { readonly kind: 'refused'; readonly isAboutData: boolean; readonly code: number; readonly message: string }
  /** The fence of the partition is above the batch. */
  | { readonly kind: 'fenced' };

export interface Fence {
  readonly batchNoMin: number;
  readonly owner: string;
}

/** Frames of a lane with stored rows, perhaps not all of their rows. */
export interface StoredFrames {
  readonly producer_id: string;
  readonly kind: RecordKind;
  readonly ranges: readonly FrameRange[];
}

/** The place of a stored record in the log. */
export interface StoredPlace {
  readonly kind: RecordKind;
  readonly producer_id: string;
  readonly frame_no: number;
  readonly idx: number;
}

/** Consecutive frames of a lane. */
export interface FrameSpan {
  readonly kind: RecordKind;
  readonly producer_id: string;
  readonly from: number;
  readonly to: number;
}

/**
 * An owner numbers its batches below its fence and this, or raises the fence first. A new owner's fence is above all of that: so it shuts
 * out what its predecessor sent even if nothing knows the number, because Postgres has lost it and the insert has not arrived yet. Numbers
 * are about milliseconds: with each new owner they may be ten minutes more ahead of the clock.
 */
export const FENCE_REACH = 600_000;

/** Each operation may throw ClickHouseFailure, after which it is unknown whether it took place; so each may be repeated. */
export interface RawStore {
  insert(batch: BatchName, part: SentPart): Promise<InsertOutcome>;
  /**
   * From its return on, no batch of the partition (of the log) with a lower number is inserted, earlier owners add nothing any
   * more, and nothing that passed the fence is still under way. A fence is never lowered.
   * @param owner owns the fence from now on, if it is a new owner, and then it is at least `FENCE_REACH` above the one before; else it must own
   * it already.
   * @returns the fence in force, and its owner.
   */
  fence(partition: number, batchNoMin: number, owner: string, isNewOwner: boolean): Promise<Fence>;
  /** Partitions that ever had a fence: all that ever had an owner. */
  partitions(): Promise<readonly number[]>;
  rowsOf(batch: BatchName, part: BatchPart): Promise<number>;
  rollupsOf(table: string): readonly string[];
  /** Rollups of the part's table in which the batch, the newest of its partition, is missing. */
  rollupsWithout(batch: BatchName, part: BatchPart): Promise<readonly string[]>;
  /**
   * Adds the raw rows of a batch to a rollup. Only for a batch that it lacks. Does nothing once another fence is in force, so a
   * delayed call can be shut out.
   */
  fillIn(batch: BatchName, part: BatchPart, rollup: string, fence: Fence): Promise<void>;
  /** The newest batch above a number. */
  newestBatch(partition: number, batchNo: number): Promise<NewestBatch>;
  /** The frames that are stored of a partition above a batch number; of one producer if it is given. */
  framesAbove(partition: number, batchNo: number, producerId?: string): Promise<readonly StoredFrames[]>;
  /** Deletes the rows of a batch without a number. Its cells are corrected with the days of its parts. */
  deleteUnnumbered(batchId: string, part: BatchPart): Promise<void>;
  /** Days with rows or cells of batches above a number. */
  daysAbove(partition: number, batchNo: number): Promise<readonly TableDay[]>;
  /**
   * Makes the cells of a partition in a day's rollups agree with its raw rows. Nothing may be inserted for the partition meanwhile,
   * and nothing is changed once another fence is in force.
   * @returns how many cells were wrong.
   */
  correct(partition: number, day: TableDay, fence: Fence): Promise<number>;
  /** Every row of these frames in batches above a number. */
  placesOf(partition: number, batchNo: number, frames: readonly FrameSpan[]): Promise<readonly StoredPlace[]>;
}

/** A UTC day of one raw table and its rollups. */
export interface TableDay {
  readonly table: string;
  /** Its midnight, epoch ms. */
  readonly dayMs: number;
}

export interface NewestBatch {
  /** Of rows in raw tables; 0 if there is none. */
  readonly raw: number;
  /** Of cells in rollups. */
  readonly rolled: number;
  /** The parts of the newest raw batch. */
  readonly parts: readonly BatchPart[];
}
