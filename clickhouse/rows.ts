/** The one mapping from records to columns: rows of the raw tables as RowBinary, in the order of the column lists. */
import type { RowWriter } from './row-binary.ts';

/** Identifies a batch. Within each partition of the log, numbers only grow. */
export interface BatchName {
  /** The partition of the log. */
  readonly partition: number;
  readonly batch_no: number;
}

/** The origin of a row, so that each row can be found again, counted, and distinguished from a copy. */
export interface RowOrigin {
  readonly producer_id: string;
  readonly frame_no: number;
  /** Index of the record in its frame, from 0. */
  readonly idx: number;
}

export interface DeadLetterRow extends RowOrigin {
  kind: string;
  reason: string;
  /** Epoch milliseconds at which the edge wrote it. */
  time: number;
  record: string;
}

export const deadLetterColumns: readonly string[] = [
  'kind',
  'reason',
  'time',
  'record',
  'log_partition',
  'batch_no',
  'producer_id',
  'frame_no',
  'idx',
];

let monthFrom = 0;
let monthTo = 0;
let monthName = '';

/** The partition of the raw tables for a time: toYYYYMM in UTC. */
export function monthOf(epochMs: number): string {
  if (epochMs < monthFrom || epochMs >= monthTo) {
    const date = new Date(epochMs);
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
    monthFrom = Date.UTC(year, month);
    monthTo = Date.UTC(year, month + 1);
    monthName = `${year}${String(month + 1).padStart(2, '0')}`;
  }
  return monthName;
}

/** One row of `dead_letters`. */
export function writeDeadLetterRow(into: RowWriter, row: DeadLetterRow, batch: BatchName): void {
  into.string(row.kind);
  into.string(row.reason);
  into.uint64(row.time);
  into.string(row.record);
  writeOrigin(into, row, batch);
}

/** The columns of a row's origin; the last ones of every raw table. */
export function writeOrigin(into: RowWriter, row: RowOrigin, batch: BatchName): void {
  into.uint16(batch.partition);
  into.uint64(batch.batch_no);
  into.string(row.producer_id);
  into.uint64(row.frame_no);
  into.uint32(row.idx);
}
