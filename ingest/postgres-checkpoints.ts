/** All that ingest keeps in Postgres, and its only SQL. */
import { randomBytes } from 'node:crypto';
import { type LaneMarks, rangesOf } from '#common/log/marks.ts';
import type { RecordKind } from '#common/log/record.ts';
import type { Postgres, Queries } from '#common/postgres.ts';
import { type BatchEntry, type Checkpoints, type Lease, LeaseLost } from './checkpoints.ts';

interface MarkRow {
  producer_id: string;
  kind: RecordKind;
  partition: number;
  mark: number;
  ahead: unknown;
}

export class PostgresCheckpoints implements Checkpoints {
  readonly #postgres: Postgres;

  constructor(postgres: Postgres) {
    this.#postgres = postgres;
  }

  async acquire(partition: number, owner: string, seconds: number): Promise<Lease | undefined> {
    const rows = await this.#postgres.query<{ epoch: number }>(
      `INSERT INTO ingest.lease AS lease (partition, owner, epoch, expires_at)
       VALUES ($1, $2, 1, now() + make_interval(secs => $3))
       ON CONFLICT (partition) DO UPDATE
         SET owner = excluded.owner, epoch = lease.epoch + 1, expires_at = excluded.expires_at
         WHERE lease.expires_at < now() OR lease.owner = excluded.owner
       RETURNING epoch`,
      [partition, owner, seconds],
    );
    const epoch = rows[0]?.epoch;
    return epoch === undefined ? undefined : { partition, epoch };
  }

  async renew(lease: Lease, seconds: number): Promise<void> {
    const touched = await this.#postgres.execute(
      'UPDATE ingest.lease SET expires_at = now() + make_interval(secs => $3) WHERE partition = $1 AND epoch = $2',
      [lease.partition, lease.epoch, seconds],
    );
    if (touched === 0) throw new LeaseLost(lease);
  }

  async release(lease: Lease): Promise<void> {
    await this.#postgres.execute('UPDATE ingest.lease SET expires_at = now() WHERE partition = $1 AND epoch = $2', [
      lease.partition,
      lease.epoch,
    ]);
  }

  async streamTime(partition: number): Promise<number> {
    const rows = await this.#postgres.query<{ stream_time: number }>(
      'SELECT stream_time FROM ingest.checkpoint WHERE partition = $1',
      [partition],
    );
    return rows[0]?.stream_time ?? 0;
  }

  async marks(partition: number): Promise<LaneMarks[]> {
    const rows = await this.#postgres.query<MarkRow>(
      'SELECT producer_id, kind, partition, mark, ahead FROM ingest.mark WHERE partition = $1',
      [partition],
    );
    return rows.map((row) => ({ ...row, ahead: rangesOf(row.ahead) ?? [] }));
  }

  async batches(partition: number): Promise<BatchEntry[]> {
    return await this.#postgres.query<BatchEntry>(
      `SELECT batch_id, frames, parts, boot_id, stream_time FROM ingest.batch WHERE partition = $1 ORDER BY created_at`,
      [partition],
    );
  }

  async begin(lease: Lease, batch: BatchEntry): Promise<boolean> {
    return await this.#owned(lease, async (queries) => {
      const touched = await queries.execute(
        `INSERT INTO ingest.batch (batch_id, partition, epoch, frames, parts, boot_id, stream_time)
         SELECT $1, $2, $3, $4, $5, $6, $7
         WHERE NOT EXISTS (SELECT FROM ingest.repair WHERE clickhouse_partition = ANY ($8) AND partition <> $2)
         ON CONFLICT (batch_id) DO UPDATE SET epoch = excluded.epoch`,
        [
          batch.batch_id,
          lease.partition,
          lease.epoch,
          JSON.stringify(batch.frames),
          JSON.stringify(batch.parts),
          batch.boot_id,
          batch.stream_time,
          batch.parts.map((part) => part.partition),
        ],
      );
      return touched === 1;
    });
  }

  async commit(lease: Lease, batchId: string, streamTime: number, marks: readonly LaneMarks[]): Promise<void> {
    await this.#owned(lease, async (queries) => {
      await queries.execute(
        `INSERT INTO ingest.mark (producer_id, kind, partition, mark, ahead)
         SELECT producer_id, kind, partition, mark, ahead
         FROM jsonb_to_recordset($1) AS given (producer_id text, kind text, partition integer, mark bigint, ahead jsonb)
         ON CONFLICT (partition, kind, producer_id) DO UPDATE SET mark = excluded.mark, ahead = excluded.ahead, updated_at = now()`,
        [JSON.stringify(marks)],
      );
      await moveCheckpoint(queries, lease.partition, streamTime);
      await queries.execute('DELETE FROM ingest.batch WHERE batch_id = $1', [batchId]);
    });
  }

  async discard(lease: Lease, batchId: string): Promise<void> {
    await this.#owned(lease, (queries) => queries.execute('DELETE FROM ingest.batch WHERE batch_id = $1', [batchId]));
  }

  async suspect(lease: Lease, batchId: string): Promise<void> {
    await this.#owned(lease, (queries) =>
      queries.execute('UPDATE ingest.batch SET is_suspect = true WHERE batch_id = $1', [batchId]),
    );
  }

  async beginRepair(lease: Lease, clickhousePartition: string): Promise<boolean> {
    return await this.#owned(lease, async (queries) => {
      const mine = await queries.execute(
        `INSERT INTO ingest.repair AS repair (clickhouse_partition, partition, epoch) VALUES ($1, $2, $3)
         ON CONFLICT (clickhouse_partition) DO UPDATE SET partition = excluded.partition, epoch = excluded.epoch
           WHERE repair.partition = excluded.partition OR repair.started_at < now() - interval '10 minutes'`,
        [clickhousePartition, lease.partition, lease.epoch],
      );
      if (mine === 0) return false;
      const others = await queries.query(
        `SELECT batch_id FROM ingest.batch
         WHERE partition <> $1 AND NOT is_suspect AND parts @> jsonb_build_array(jsonb_build_object('partition', $2::text))`,
        [lease.partition, clickhousePartition],
      );
      return others.length === 0;
    });
  }

  async endRepair(lease: Lease, clickhousePartition: string): Promise<void> {
    await this.#postgres.execute('DELETE FROM ingest.repair WHERE clickhouse_partition = $1 AND partition = $2', [
      clickhousePartition,
      lease.partition,
    ]);
  }

  async endRepairs(lease: Lease): Promise<void> {
    await this.#postgres.execute('DELETE FROM ingest.repair WHERE partition = $1', [lease.partition]);
  }

  async installationId(): Promise<string> {
    await this.#postgres.execute('INSERT INTO ingest.installation (id) VALUES ($1) ON CONFLICT DO NOTHING', [
      randomBytes(16).toString('hex'),
    ]);
    const rows = await this.#postgres.query<{ id: string }>('SELECT id FROM ingest.installation');
    return rows[0]?.id ?? '';
  }

  async salt(day: number, forgetBefore: number): Promise<string> {
    await this.#postgres.execute('DELETE FROM ingest.visitor_salt WHERE day < $1', [forgetBefore]);
    await this.#postgres.execute('INSERT INTO ingest.visitor_salt (day, salt) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
      day,
      randomBytes(16).toString('hex'),
    ]);
    const rows = await this.#postgres.query<{ salt: string }>('SELECT salt FROM ingest.visitor_salt WHERE day = $1', [
      day,
    ]);
    return rows[0]?.salt ?? '';
  }

  async forgetMarks(partition: number, days: number): Promise<number> {
    return await this.#postgres.execute(
      'DELETE FROM ingest.mark WHERE partition = $1 AND updated_at < now() - make_interval(days => $2)',
      [partition, days],
    );
  }

  async reportProgress(machine: string, committedTo: number): Promise<void> {
    await this.#postgres.execute(
      `INSERT INTO ingest.progress (machine, committed_to) VALUES ($1, $2)
       ON CONFLICT (machine) DO UPDATE SET committed_to = excluded.committed_to, updated_at = now()`,
      [machine, committedTo],
    );
  }

  /** Runs work in a transaction that holds on to the lease. @throws LeaseLost */
  async #owned<T>(lease: Lease, work: (queries: Queries) => Promise<T>): Promise<T> {
    return await this.#postgres.transaction(async (queries) => {
      const held = await queries.query(
        'SELECT epoch FROM ingest.lease WHERE partition = $1 AND epoch = $2 FOR UPDATE',
        [lease.partition, lease.epoch],
      );
      if (held.length === 0) throw new LeaseLost(lease);
      return await work(queries);
    });
  }
}

async function moveCheckpoint(queries: Queries, partition: number, streamTime: number): Promise<void> {
  await queries.execute(
    `INSERT INTO ingest.checkpoint AS checkpoint (partition, stream_time) VALUES ($1, $2)
     ON CONFLICT (partition) DO UPDATE SET stream_time = greatest(checkpoint.stream_time, excluded.stream_time)`,
    [partition, streamTime],
  );
}
