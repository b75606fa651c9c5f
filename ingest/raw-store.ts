/**
 * What ingest asks of ClickHouse for storing batches: the raw tables and their rollups. An insert of one part is all or nothing
 * in each table that it reaches; it reaches the raw table first and its rollups after it.
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
  /** Not known whether it took place, or will. */
  | { readonly kind: 'unknown'; readonly code: number; readonly message: string }
  /** ClickHouse answered no: for its data, or because it can't be stored by this server as it is. */
  | { readonly kind: 'refused'; readonly isAboutData: boolean; readonly code: number; readonly message: string }
  /** The fence of the partition is above the batch. */
  | { readonly kind: 'fenced' };

export interface Fence {
  readonly batchNoMin: number;
  readonly owner: string;
}

/** Frames of a lane of which rows are stored, perhaps not all of them. */
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

/** Frames whose rows are asked for. */
export interface FrameSpan {
  readonly kind: RecordKind;
  readonly producer_id: string;
  readonly from: number;
  readonly to: number;
}

/** Each operation may throw ClickHouseFailure, after which it is not known whether it took place; so each may be repeated. */
export interface RawStore {
  insert(batch: BatchName, part: SentPart): Promise<InsertOutcome>;
  /**
   * From its return on no batch of the partition (of the log) with a lower number is inserted, nothing is added any more by an owner
   * of before, and nothing that was let through is still on its way. A fence is never lowered.
   * @param owner whose fence it is from now on, if it is a new one; else it must be already.
   * @returns the fence in force, and whose it is.
   */
  fence(partition: number, batchNoMin: number, owner: string, isNewOwner: boolean): Promise<Fence>;
  rowsOf(batch: BatchName, part: BatchPart): Promise<number>;
  rollupsOf(table: string): readonly string[];
  /** Rollups of the part's table in which the batch, the newest of its partition, is missing. */
  rollupsWithout(batch: BatchName, part: BatchPart): Promise<readonly string[]>;
  /**
   * Adds to a rollup what the raw rows of a batch make. Only for a batch that it does not have. Does nothing once another fence
   * is in force, so one that arrives late can be shut out.
   */
  fillIn(batch: BatchName, part: BatchPart, rollup: string, fence: Fence): Promise<void>;
  /** The newest batch above a number. */
  newestBatch(partition: number, batchNo: number): Promise<NewestBatch>;
  /** What is stored of a partition above a batch number; of one producer if it is given. */
  framesAbove(partition: number, batchNo: number, producerId?: string): Promise<readonly StoredFrames[]>;
  /** Deletes the rows of a batch that has no number. Its cells are corrected with the days of its parts. */
  deleteUnnumbered(batchId: string, part: BatchPart): Promise<void>;
  /** Days of which rows or cells belong to batches above a number. */
  daysAbove(partition: number, batchNo: number): Promise<readonly TableDay[]>;
  /**
   * Makes the cells of a partition in a day's rollups what its raw rows make. Nothing may be inserted for the partition meanwhile,
   * and nothing is done once another fence is in force.
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
