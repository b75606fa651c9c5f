/**
 * Forms batches of a simulation: rows of what the order of effects depends on, without reading user agents and addresses. What it
 * leaves out (rows that are stored already) it leaves out as the real one does.
 */
import { type BatchName, partitionOf } from '#clickhouse/rows.ts';
import { payloadOf } from '#common/log/frame.ts';
import type { FormChanges, FormedBatch, LogFrame } from '#ingest/batch.ts';
import { rowKey } from '#ingest/refused-rows.ts';
import type { SimulatedRow } from './simulated-clickhouse.ts';

const table = 'clicks';

/** The line of a record. */
export function lineOf(n: number, time: number): string {
  return `{"n":${n},"time":${time}}`;
}

export class ThinFormer {
  begin(): Promise<void> {
    return Promise.resolve();
  }

  form(batch: BatchName, frames: readonly LogFrame[], changes: FormChanges = {}): Promise<FormedBatch> {
    const months = new Map<string, SimulatedRow[]>();
    for (const { header, bytes } of frames) {
      const { producer_id, frame_no } = header;
      for (const [idx, line] of payloadOf(bytes, header).toString().trimEnd().split('\n').entries()) {
        if (changes.stored?.has(rowKey(table, producer_id, frame_no, idx)) === true) continue;
        const { n, time } = JSON.parse(line) as { n: number; time: number };
        const month = partitionOf(time);
        const row = { n, table, month, producer_id, frame_no, idx, time };
        const rows = months.get(month) ?? [];
        months.set(month, rows);
        rows.push({ ...row, log_partition: batch.partition, batch_no: batch.batch_no });
      }
    }
    const parts = [...months].map(([partition, rows]) => ({
      table,
      partition,
      rows: rows.length,
      time_from: Math.min(...rows.map((row) => row.time)),
      time_to: Math.max(...rows.map((row) => row.time)),
      columns: [],
      places: [],
      body: Buffer.from(JSON.stringify(rows)),
    }));
    return Promise.resolve({
      batch,
      frames,
      parts,
      streamTime: Math.max(0, ...frames.map((frame) => frame.streamTime)),
      rows: parts.reduce((sum, part) => sum + part.rows, 0),
      rejections: new Map(),
    });
  }
}
