/**
 * The operations of ClickHouse that ingest needs to store batches: the raw tables and their rollups. An insert of one
 * part is all or nothing in each table that it reaches; it reaches the raw table first and then the rollups.
 */
import type { BatchName } from '#clickhouse/rows.ts';
import type { FrameRange, LaneMarks } from '#common/log/marks.ts';
import type { RecordKind } from '#common/log/record.ts';
import type { BatchPart, FrameRows, LedgerLine } from './checkpoints.ts';

export interface SentPart extends BatchPart {
  readonly columns: readonly string[];
  readonly body: Uint8Array;
}

export type InsertOutcome =
  | { readonly kind: 'written' }
  /** Unknown whether the insert took effect, or still will. */
  | { readonly kind: 'unknown'; readonly code: number; readonly message: string }
  /** ClickHouse refused it, because of its data or because of the server's state. */
  | { readonly kind: 'refused'; readonly isAboutData: boolean; readonly code: number; readonly message: string }
  /** The fence of the partition is above the batch. */
  | { readonly kind: 'fenced' };

export interface Fence {
  readonly batchNoMin: number;
  readonly owner: string;
}

/** Frames of a lane that have stored rows, perhaps not all of their rows. */
export interface StoredFrames {
  readonly producer_id: string;
  readonly kind: RecordKind;
  readonly ranges: readonly FrameRange[];
}

/** The position of a stored record in the log. */
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
 * Maximum distance of a batch number above its owner's fence; beyond it, the owner raises the fence first. A new
 * owner's fence is above that range. So it also shuts out batches of its predecessor with unknown numbers: Postgres has
 * lost them, and the insert has not arrived yet. Numbers are roughly milliseconds: each new owner may move them ten
 * minutes further ahead of the clock.
 */
export const FENCE_REACH = 600_000;

/**
 * Each operation may throw ClickHouseFailure; it is then unknown whether it took effect, so each can be repeated
 * safely.
 */
export interface RawStore {
  insert(batch: BatchName, part: SentPart): Promise<InsertOutcome>;
  /**
   * After it returns, no batch of the (log) partition with a lower number is inserted, earlier owners add no more rows,
   * and no insert that passed the fence is still running. A fence is never lowered.
   * @param owner a new owner owns the fence from now on, and it is at least `FENCE_REACH` above the previous one; any
   * other owner must already own it.
   * @returns the fence in force, and its owner.
   */
  fence(partition: number, batchNoMin: number, owner: string, isNewOwner: boolean): Promise<Fence>;
  /** Partitions that ever had a fence, and so ever had an owner. */
  partitions(): Promise<readonly number[]>;
  rowsOf(batch: BatchName, part: BatchPart): Promise<number>;
  rollupsOf(table: string): readonly string[];
  /** Rollups of the part's table that lack the batch, which is the newest of its partition. */
  rollupsWithout(batch: BatchName, part: BatchPart): Promise<readonly string[]>;
  /**
   * Adds the raw rows of a batch to a rollup. Call only for a batch that the rollup lacks. Does nothing once another
   * fence is in force, so that a delayed call can be shut out.
   */
  fillIn(batch: BatchName, part: BatchPart, rollup: string, fence: Fence): Promise<void>;
  /** The newest batch above a number. */
  newestBatch(partition: number, batchNo: number): Promise<NewestBatch>;
  /** The frames of a partition that are stored in batches above a number; only those of one producer if it is given. */
  framesAbove(partition: number, batchNo: number, producerId?: string): Promise<readonly StoredFrames[]>;
  /**
   * Rows of a partition in batches above a number, late attributions aside, by day of the batch.
   * @param committed marks of lanes: rows of frames that these commit were stored again.
   */
  rowsAbove(partition: number, batchNo: number, committed: readonly LaneMarks[]): Promise<readonly LedgerLine[]>;
  /** Rows of some frames in some batches of a partition. */
  rowsByFrame(partition: number, batches: FrameRange, frames: readonly FrameSpan[]): Promise<readonly FrameRows[]>;
  /** Deletes the rows of a batch without a number. Its rollup cells remain, until the days of its parts are corrected. */
  deleteUnnumbered(batchId: string, part: BatchPart): Promise<void>;
  /** Days with rows or cells of batches above a number. */
  daysAbove(partition: number, batchNo: number): Promise<readonly TableDay[]>;
  /**
   * Corrects the cells of a partition in a day's rollups to agree with its raw rows. No insert for the partition may
   * run at the same time. Changes nothing once another fence is in force.
   * @returns how many cells were wrong.
   */
  correct(partition: number, day: TableDay, fence: Fence): Promise<number>;
  /** Every row of these frames in batches above a number. */
  placesOf(partition: number, batchNo: number, frames: readonly FrameSpan[]): Promise<readonly StoredPlace[]>;
}

/** A UTC day of one raw table and its rollups. */
export interface TableDay {
  readonly table: string;
  /** Midnight of the day, epoch ms. */
  readonly dayMs: number;
}

export interface NewestBatch {
  /** The newest batch number in the raw tables; 0 if there is none. */
  readonly raw: number;
  /** The newest batch number in the rollups; 0 if there is none. */
  readonly rolled: number;
  /** The parts of the newest raw batch. */
  readonly parts: readonly BatchPart[];
}
