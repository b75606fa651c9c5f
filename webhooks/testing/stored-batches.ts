/**
 * Batches of records in the state that ingest leaves: rows in ClickHouse, and the batch deleted in Postgres when its
 * marks are stored.
 */
import type { ClickHouse } from '#clickhouse/client.ts';
import type { Postgres } from '#common/stores/postgres.ts';

/** The time of all these records. */
export const batchTimeMs = Date.parse('2026-11-20T10:00:00Z');

/** Rows of a batch, each a distinct record. @throws if ClickHouse rejects them. */
export async function storeRows(
  clickhouse: ClickHouse,
  table: string,
  rows: readonly object[],
  batch_no: number,
  log_partition = 3,
): Promise<void> {
  const place = { time: '2026-11-20 10:00:00.000', log_partition, batch_no, producer_id: 'p1', frame_no: batch_no };
  const lines = rows.map((row, idx) => JSON.stringify({ ...place, idx, ...row })).join('\n');
  const columns = Object.keys({ ...place, idx: 0, ...Object.assign({}, ...rows) });
  const insertion = { token: `${table} ${log_partition} ${batch_no}`, format: 'JSONEachRow', columns } as const;
  const answer = await clickhouse.insert(table, Buffer.from(lines), insertion);
  if (answer.kind !== 'written') throw new Error(`ClickHouse did not take the rows: ${answer.kind}`);
}

/** Inserts and deletes a batch, so that a trigger queues it. @param db as the owner. */
export async function commitBatch(
  db: Postgres,
  tables: readonly string[],
  batchNo: number,
  partition = 3,
): Promise<void> {
  const parts = tables.map((table) => ({
    table,
    partition: '202611',
    rows: 1,
    time_from: batchTimeMs,
    time_to: batchTimeMs,
  }));
  await db.execute(
    'INSERT INTO ingest.batch (partition, batch_no, epoch, frames, parts, stream_time) VALUES ($1, $2, 1, $3, $4, 1)',
    [partition, batchNo, '[]', JSON.stringify(parts)],
  );
  await db.execute('DELETE FROM ingest.batch WHERE partition = $1 AND batch_no = $2', [partition, batchNo]);
}
