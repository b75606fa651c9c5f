/** A batch after its rows are formed: its frames, and the parts to insert. */
import type { BatchName } from '#clickhouse/rows.ts';
import type { FrameHeader } from '#common/log/frame.ts';
import type { FrameRun, LedgerLine } from './checkpoints.ts';
import type { SentPart } from './raw-store.ts';
import type { RejectionReason } from './record-decoder.ts';

/** A frame as delivered by the log. */
export interface LogFrame {
  readonly header: FrameHeader;
  readonly bytes: Buffer;
  /** Time at which the log stored it, epoch ms. */
  readonly streamTime: number;
  /** Its edge's clock was wrong: the header has another time of writing than the journal. */
  readonly isCorrected?: boolean;
}

export interface FormedPart extends SentPart {
  readonly body: Buffer;
  /** Where each row begins, if `isPlaced` was set. */
  readonly places: readonly RowPlace[];
}

export interface FormedBatch {
  readonly batch: BatchName;
  readonly frames: readonly LogFrame[];
  readonly parts: readonly FormedPart[];
  readonly streamTime: number;
  readonly rows: number;
  readonly rejections: ReadonlyMap<RejectionReason, number>;
  /** Rows that partial batches had of its frames, and that ClickHouse has lost. */
  readonly gone?: readonly LedgerLine[];
}

/** Where a row begins in the body of its part, and the key by which it can be omitted. */
export interface RowPlace {
  readonly start: number;
  readonly key: string;
}

/** The key of a row: its table and the position of its record in the log. */
export function rowKey(table: string, producerId: string, frameNo: number, idx: number): string {
  return `${table}:${producerId}:${frameNo}:${idx}`;
}

/** When the log stored the newest of them, epoch ms; 0 if there is none. */
export function streamTimeOf(frames: readonly LogFrame[]): number {
  return frames.reduce((newest, { streamTime }) => Math.max(newest, streamTime), 0);
}

/** Groups frames, in order, into runs of consecutive numbers. */
export function runsOf(frames: readonly Pick<LogFrame, 'header'>[]): FrameRun[] {
  const runs: { producer_id: string; kind: FrameRun['kind']; from: number; to: number }[] = [];
  for (const { header } of frames) {
    const last = runs.at(-1);
    const { producer_id, kind, frame_no } = header;
    if (last?.producer_id === producer_id && last.kind === kind && last.to === frame_no - 1) last.to = frame_no;
    else runs.push({ producer_id, kind, from: frame_no, to: frame_no });
  }
  return runs;
}
