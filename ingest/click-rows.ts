/**
 * Encodes the clicks of a frame as rows of the table `clicks`: their own columns, then those of enrichment, then the
 * position in the log.
 */
import { type ByteText, stringBytes, uint16Bytes, uint32Bytes, uint64Bytes } from '#clickhouse/row-binary.ts';
import type { BatchName } from '#clickhouse/rows.ts';
import { frameRecordsMax } from '#common/log/frame.ts';
import type { Click } from '#common/log/record.ts';
import type { Enrichment } from './enrichment.ts';

/** The origin of the rows of a frame. */
export interface FrameOrigin {
  readonly batch: BatchName;
  readonly producer_id: string;
  readonly frame_no: number;
}

const ownColumns = ['click_id', 'query', 'rule', 'trigger', 'time', 'idx'];
const originColumns = ['log_partition', 'batch_no', 'producer_id', 'frame_no'];
export const triggerBytes = { link: stringBytes('link'), universal_link: stringBytes('universal_link') };
const encodedIdx = Array.from({ length: frameRecordsMax }, (_, idx) => uint32Bytes(idx));

export function idxBytes(idx: number): ByteText {
  return encodedIdx[idx] ?? uint32Bytes(idx);
}

export function originBytes({ batch, producer_id, frame_no }: FrameOrigin): ByteText {
  return uint16Bytes(batch.partition) + uint64Bytes(batch.batch_no) + stringBytes(producer_id) + uint64Bytes(frame_no);
}

export class ClickRows {
  readonly columns: readonly string[];
  readonly #enrichment: Enrichment;
  #time = -1;
  #encodedTime: ByteText = '';

  constructor(enrichment: Enrichment) {
    this.#enrichment = enrichment;
    this.columns = [...ownColumns, ...enrichment.columns, ...originColumns];
  }

  /** @param indexes the index of each click in its frame. */
  encode(clicks: readonly Click[], indexes: readonly number[], origin: FrameOrigin): ByteText[] {
    const rows = clicks.map((click, at) => this.#ownOf(click, indexes[at] ?? 0));
    this.#enrichment.run(clicks, rows);
    const from = originBytes(origin);
    for (let at = 0; at < rows.length; at++) rows[at] += from;
    return rows;
  }

  #ownOf(click: Click, idx: number): ByteText {
    // The clicks of a frame share few distinct milliseconds.
    if (click.time !== this.#time) {
      this.#time = click.time;
      this.#encodedTime = uint64Bytes(click.time);
    }
    return (
      stringBytes(click.click_id) +
      stringBytes(click.query) +
      stringBytes(click.rule) +
      triggerBytes[click.trigger] +
      this.#encodedTime +
      idxBytes(idx)
    );
  }
}
