/** Batches of records as ingest leaves them: rows in ClickHouse, and the batch deleted in Postgres with its marks. */
import type { ClickHouse } from '#clickhouse/client.ts';
import type { Postgres } from '#common/stores/postgres.ts';

/** When all of these records happened. */
export const batchTimeMs = Date.parse('2026-11-20T10:00:00Z');

/** Rows of a batch, each a record of its own. @throws if ClickHouse does not take them. */
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

/** Begun and deleted: a trigger owes the batch. @param db as the owner. */
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
