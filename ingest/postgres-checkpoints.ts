/** `Checkpoints` in Postgres: the SQL for leases, marks, batches and revisions. */
import { randomBytes } from 'node:crypto';
import { DAY_MS } from '#common/durations.ts';
import { EVENT_AHEAD_MAX_MS } from '#common/event-time.ts';
import { type LaneMarks, rangesOf } from '#common/log/marks.ts';
import type { RecordKind } from '#common/log/record.ts';
import type { Postgres, Queries } from '#common/stores/postgres.ts';
import {
  type BatchEntry,
  type BatchPart,
  type Checkpoints,
  type LaneName,
  type Lease,
  LeaseLost,
  type LedgerLine,
  type LostFrames,
  type MachineProgress,
  marksReadDays,
  type Revision,
  type RevisionDone,
  type UnnumberedBatch,
} from './checkpoints.ts';

/** Values of synchronous_commit with which an acknowledged COMMIT is on disk. */
const keptOnDisk: ReadonlySet<string> = new Set(['on', 'remote_apply']);

interface MarkRow {
  producer_id: string;
  kind: RecordKind;
  partition: number;
  mark: number;
  ahead: unknown;
}

/**
 * If the journals of a machine have not reported for this long, the machine was replaced by the one that reports now.
 */
const holderSilentSeconds = 30;
const hasGoneBack = 'is in an earlier state because Postgres was restored, and is taken again';

export class PostgresCheckpoints implements Checkpoints {
  readonly #postgres: Postgres;

  constructor(postgres: Postgres) {
    this.#postgres = postgres;
  }

  async acquire(partition: number, owner: string, seconds: number): Promise<Lease | undefined> {
    const rows = await this.#postgres.query<{ epoch: number; last_batch_no: number }>(
      `INSERT INTO ingest.lease AS lease (partition, owner, epoch, expires_at)
       VALUES ($1, $2, 1, now() + make_interval(secs => $3))
       ON CONFLICT (partition) DO UPDATE
         SET owner = excluded.owner, epoch = lease.epoch + 1, expires_at = excluded.expires_at
         WHERE NOT signpost_is_live(lease.expires_at) OR lease.owner = excluded.owner
       RETURNING epoch, coalesce((SELECT last_batch_no FROM ingest.last_batch WHERE partition = $1), 0) AS last_batch_no`,
      [partition, owner, seconds],
    );
    const [row] = rows;
    return row && { partition, owner, epoch: row.epoch, lastBatchNo: row.last_batch_no };
  }

  async renew(lease: Lease, seconds: number, decidedNo: number): Promise<void> {
    const touched = await this.#postgres.execute(
      `UPDATE ingest.lease SET expires_at = now() + make_interval(secs => $3)
       WHERE partition = $1 AND epoch = $2 AND owner = $4 AND ($5::bigint = 0 OR (
         EXISTS (SELECT FROM ingest.last_batch WHERE partition = $1 AND last_batch_no >= $5) AND NOT EXISTS (
           SELECT FROM ingest.batch WHERE partition = $1 AND batch_no BETWEEN 1 AND $5 AND NOT is_partial)))`,
      [lease.partition, lease.epoch, seconds, lease.owner, decidedNo],
    );
    if (touched === 0) throw new LeaseLost(lease);
  }

  async release(lease: Lease): Promise<void> {
    await this.#postgres.execute(
      'UPDATE ingest.lease SET expires_at = now() WHERE partition = $1 AND epoch = $2 AND owner = $3',
      [lease.partition, lease.epoch, lease.owner],
    );
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
      `SELECT producer_id, kind, partition, mark, ahead FROM ingest.mark
       WHERE partition = $1 AND updated_at > now() - make_interval(days => $2)`,
      [partition, marksReadDays],
    );
    return rows.map(marksOf);
  }

  async recallMarks(lease: Lease, lanes: readonly LaneName[]): Promise<LaneMarks[]> {
    const rows = await this.#owned(lease, (queries) =>
      queries.query<MarkRow>(
        `UPDATE ingest.mark AS kept SET updated_at = now()
         FROM jsonb_to_recordset($2) AS given (producer_id text, kind text)
         WHERE kept.partition = $1 AND kept.producer_id = given.producer_id AND kept.kind = given.kind
         RETURNING kept.producer_id, kept.kind, kept.partition, kept.mark, kept.ahead`,
        [lease.partition, JSON.stringify(lanes)],
      ),
    );
    return rows.map(marksOf);
  }

  async batches(partition: number): Promise<BatchEntry[]> {
    return await this.#postgres.query<BatchEntry>(
      `SELECT batch_no, frames, parts, stream_time, is_partial, is_again, stored, gone FROM ingest.batch
       WHERE partition = $1 AND batch_no > 0 ORDER BY batch_no`,
      [partition],
    );
  }

  async begin(lease: Lease, batch: BatchEntry, previousNo: number): Promise<void> {
    const { batch_no, frames, parts, stream_time, is_again, gone } = batch;
    const [framesJson, partsJson, goneJson] = [frames, parts, gone].map((list) => JSON.stringify(list));
    await this.#owned(lease, async (queries) => {
      const known = await queries.execute(
        `INSERT INTO ingest.last_batch AS kept
         SELECT $1::integer, $2::bigint WHERE ($3::bigint = 0 OR EXISTS (SELECT FROM ingest.last_batch WHERE partition = $1)) AND NOT EXISTS (
           SELECT FROM ingest.batch WHERE partition = $1 AND batch_no > 0 AND batch_no <> $2 AND NOT is_partial)
         ON CONFLICT (partition) DO UPDATE SET last_batch_no = $2 WHERE kept.last_batch_no IN ($2, $3)`,
        [lease.partition, batch_no, previousNo],
      );
      if (known === 0) throw new LeaseLost(lease, hasGoneBack);
      // If this is repeated after a lost response, the batch is still written once.
      await queries.execute(
        `INSERT INTO ingest.batch (partition, batch_no, epoch, frames, parts, stream_time, is_again, gone)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (partition, batch_no) WHERE batch_no > 0 DO NOTHING`,
        [lease.partition, batch_no, lease.epoch, framesJson, partsJson, stream_time, is_again, goneJson],
      );
    });
  }

  async commit(
    lease: Lease,
    batchNo: number,
    streamTime: number,
    marks: readonly LaneMarks[],
    finished: readonly number[],
  ): Promise<void> {
    await this.#owned(lease, async (queries) => {
      const known = await queries.query('SELECT FROM ingest.last_batch WHERE partition = $1 AND last_batch_no >= $2', [
        lease.partition,
        batchNo,
      ]);
      if (known.length === 0) throw new LeaseLost(lease, hasGoneBack);
      await writeMarks(queries, marks);
      await moveCheckpoint(queries, lease.partition, streamTime);
      await queries.execute(
        booked(`DELETE FROM ingest.batch WHERE partition = $1 AND batch_no = $2 AND NOT is_partial
                RETURNING batch_no, frames, parts, is_again, gone`),
        [lease.partition, batchNo],
      );
      await forget(queries, lease.partition, [batchNo, ...finished]);
    });
  }

  async discard(lease: Lease, batchNo: number): Promise<void> {
    await this.#owned(lease, (queries) => forget(queries, lease.partition, [batchNo]));
  }

  async moveMarks(lease: Lease, marks: readonly LaneMarks[], lost: readonly LostFrames[] = []): Promise<void> {
    await this.#owned(lease, async (queries) => {
      await writeMarks(queries, marks);
      // If this is repeated after a lost response, the frames are still counted once.
      if (lost.length > 0)
        await queries.execute(
          `INSERT INTO ingest.lost_frames (partition, kind, producer_id, frame_from, frame_to, records)
           SELECT $1, kind, producer_id, "from", "to", records
           FROM jsonb_to_recordset($2) AS given (producer_id text, kind text, "from" bigint, "to" bigint, records bigint)
           ON CONFLICT DO NOTHING`,
          [lease.partition, JSON.stringify(lost)],
        );
    });
  }

  async unnumberedBatches(): Promise<UnnumberedBatch[]> {
    return await this.#postgres.query<UnnumberedBatch>(
      'SELECT batch_id, parts FROM ingest.batch WHERE batch_no = 0 ORDER BY created_at',
    );
  }

  async discardUnnumbered(lease: Lease, batchId: string): Promise<void> {
    await this.#owned(lease, (queries) =>
      queries.execute('DELETE FROM ingest.batch WHERE batch_no = 0 AND batch_id = $1', [batchId]),
    );
  }

  async learn(lease: Lease, batch: BatchEntry, newestNo: number, stored: readonly LedgerLine[]): Promise<void> {
    const { batch_no, frames, parts, stream_time } = batch;
    const [framesJson, partsJson, rowsJson] = [frames, parts, batch.stored].map((list) => JSON.stringify(list));
    await this.#owned(lease, async (queries) => {
      // If Postgres has lost more since, its marks are no longer those that the frames were compared with.
      const known = await queries.execute(
        `INSERT INTO ingest.last_batch AS kept
         SELECT $1::integer, $2::bigint WHERE $3::bigint = 0 OR EXISTS (SELECT FROM ingest.last_batch WHERE partition = $1)
         ON CONFLICT (partition) DO UPDATE SET last_batch_no = $2 WHERE kept.last_batch_no IN ($2, $3)`,
        [lease.partition, newestNo, lease.lastBatchNo],
      );
      if (known === 0) throw new LeaseLost(lease, hasGoneBack);
      const added = await queries.execute(
        `INSERT INTO ingest.batch (partition, batch_no, epoch, frames, parts, stream_time, stored, is_partial)
         VALUES ($1, $2, $3, $4, $5, $6, $7, true) ON CONFLICT (partition, batch_no) WHERE batch_no > 0 DO NOTHING`,
        [lease.partition, batch_no, lease.epoch, framesJson, partsJson, stream_time, rowsJson],
      );
      if (added === 0) return;
      await queries.execute(addToLedger(linesIn('jsonb_to_recordset($2)')), [lease.partition, JSON.stringify(stored)]);
    });
  }

  async keepPartial(lease: Lease, batchNo: number, stored: readonly BatchPart[]): Promise<void> {
    await this.#owned(lease, (queries) =>
      queries.execute(
        booked(`UPDATE ingest.batch SET is_partial = true, stored = CASE WHEN is_again THEN '[]' ELSE $3::jsonb END
                WHERE partition = $1 AND batch_no = $2 AND NOT is_partial
                RETURNING batch_no, frames, $3::jsonb AS parts, is_again, '[]'::jsonb AS gone`),
        [lease.partition, batchNo, JSON.stringify(stored)],
      ),
    );
  }

  async forgetLedger(table: string, before: number, ageMs: number): Promise<void> {
    await this.#postgres.execute(
      `DELETE FROM ingest.ledger WHERE raw_table = $1 AND time_to < $2 AND time_to < extract(epoch FROM (SELECT signpost_deletion_time())) * 1000 - $3::bigint`,
      [table, before, ageMs],
    );
  }

  async installationId(): Promise<string> {
    await this.#postgres.execute('INSERT INTO ingest.installation (id) VALUES ($1) ON CONFLICT DO NOTHING', [
      randomBytes(16).toString('hex'),
    ]);
    const rows = await this.#postgres.query<{ id: string }>('SELECT id FROM ingest.installation');
    return rows[0]?.id ?? '';
  }

  async revision(partition: number): Promise<Revision | undefined> {
    const [row] = await this.#postgres.query<Revision>(
      'SELECT replay_from, days_from, days_to FROM ingest.revision WHERE partition = $1 AND done_at IS NULL',
      [partition],
    );
    return row;
  }

  async reviseDone(lease: Lease, done: RevisionDone): Promise<void> {
    await this.#owned(lease, (queries) =>
      queries.execute(
        'UPDATE ingest.revision SET rows_stored = $2, cells_corrected = $3, done_at = now() WHERE partition = $1 AND done_at IS NULL',
        [lease.partition, done.rowsStored, done.cellsCorrected],
      ),
    );
  }

  async salt(day: number, keptDays: number): Promise<string> {
    await this.#postgres.execute(
      'DELETE FROM ingest.visitor_salt WHERE day < floor(extract(epoch FROM signpost_deletion_time()) / 86400) - $1::integer',
      [keptDays],
    );
    await this.#postgres.execute('INSERT INTO ingest.visitor_salt (day, salt) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
      day,
      randomBytes(16).toString('hex'),
    ]);
    const rows = await this.#postgres.query<{ salt: string }>('SELECT salt FROM ingest.visitor_salt WHERE day = $1', [
      day,
    ]);
    return rows[0]?.salt ?? '';
  }

  async reportProgress({ machine, committedTo, sentAt, holder }: MachineProgress): Promise<number | undefined> {
    // As for records: a clock that differs by more counts as wrong, and what is known of it is only its rate.
    const [kept] = await this.#postgres.query<{ ahead_ms: number }>(
      `WITH store AS (SELECT (extract(epoch FROM now()) * 1000)::bigint AS now_ms),
       told AS (SELECT $5::bigint - now_ms AS ahead_ms,
         CASE WHEN abs($5::bigint - now_ms) > $6 THEN now_ms - greatest(0, $5::bigint - $2::bigint) ELSE $2::bigint END AS committed_to FROM store)
       INSERT INTO ingest.progress AS known (machine, committed_to, holder) SELECT $1, committed_to, $3 FROM told
       ON CONFLICT (machine) DO UPDATE SET committed_to = excluded.committed_to, updated_at = now(),
           holder = CASE excluded.holder WHEN '' THEN known.holder ELSE excluded.holder END
         WHERE known.holder IN ('', excluded.holder) OR excluded.holder = ''
            OR known.updated_at NOT BETWEEN now() - make_interval(secs => $4) AND now() + make_interval(secs => $4)
       RETURNING coalesce((SELECT ahead_ms FROM told), 0) AS ahead_ms`,
      [machine, committedTo, holder, holderSilentSeconds, sentAt ?? null, EVENT_AHEAD_MAX_MS],
    );
    return kept?.ahead_ms;
  }

  /**
   * Runs work in a transaction that holds the lease and is on disk when acknowledged, whatever the server's setting.
   * @throws LeaseLost
   */
  async #owned<T>(lease: Lease, work: (queries: Queries) => Promise<T>): Promise<T> {
    return await this.#postgres.transaction(async (queries) => {
      const [held] = await queries.query<{ kept: string }>(
        `SELECT CASE WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'
                     ELSE set_config('synchronous_commit', 'on', true) END AS kept
         FROM ingest.lease WHERE partition = $1 AND epoch = $2 AND owner = $3 FOR UPDATE`,
        [lease.partition, lease.epoch, lease.owner],
      );
      if (held === undefined) throw new LeaseLost(lease);
      if (!keptOnDisk.has(held.kept))
        throw new Error(`Postgres commits with synchronous_commit = ${held.kept}: set it to on.`);
      return await work(queries);
    });
  }
}

function marksOf(row: MarkRow): LaneMarks {
  return { ...row, ahead: rangesOf(row.ahead) ?? [] };
}

async function writeMarks(queries: Queries, marks: readonly LaneMarks[]): Promise<void> {
  await queries.execute(
    `INSERT INTO ingest.mark (producer_id, kind, partition, mark, ahead)
     SELECT producer_id, kind, partition, mark, ahead
     FROM jsonb_to_recordset($1) AS given (producer_id text, kind text, partition integer, mark bigint, ahead jsonb)
     ON CONFLICT (partition, kind, producer_id) DO UPDATE SET mark = excluded.mark, ahead = excluded.ahead, updated_at = now()`,
    [JSON.stringify(marks)],
  );
}

/**
 * Adds batches to the ledger, once: those that a statement changes and returns, without what was counted of their frames
 * and is gone. Late attributions belong to no frame; they change rows, and add none that could be missing.
 */
function booked(changed: string): string {
  return `WITH changed AS (${changed}) ${addToLedger(
    `SELECT batch_no AS batch_from, batch_no AS batch_to, CASE WHEN is_again THEN part.rows ELSE 0 END, part.* FROM changed,
       jsonb_to_recordset(parts) AS part ("table" text, partition text, rows bigint, time_from bigint, time_to bigint)
     WHERE frames <> '[]' AND part.rows > 0
     UNION ALL ${linesIn('changed, jsonb_to_recordset(gone)', '-')}`,
  )}`;
}

/** Lines of the ledger in JSON, as `addToLedger` takes them; with `-`, to be taken back. */
function linesIn(from: string, sign = ''): string {
  return `SELECT batch_from, batch_to, ${sign}rows_again, "table", partition, ${sign}rows, time_from, time_to FROM ${from}
    AS line (batch_from bigint, batch_to bigint, rows_again bigint, "table" text, partition text, rows bigint, time_from bigint, time_to bigint)`;
}

function addToLedger(lines: string): string {
  return `INSERT INTO ingest.ledger AS known
    SELECT $1::integer, batch_from / ${DAY_MS} AS batch_day, "table", partition, sum(rows), sum(rows_again),
           min(batch_from), max(batch_to), min(time_from), max(time_to)
    FROM (${lines}) AS line (batch_from, batch_to, rows_again, "table", partition, rows, time_from, time_to)
    GROUP BY batch_day, "table", partition
    ON CONFLICT (partition, batch_day, raw_table, month) DO UPDATE
      SET rows = known.rows + excluded.rows, rows_again = known.rows_again + excluded.rows_again,
          batch_from = least(known.batch_from, excluded.batch_from), batch_to = greatest(known.batch_to, excluded.batch_to),
          time_from = least(known.time_from, excluded.time_from), time_to = greatest(known.time_to, excluded.time_to)`;
}

async function forget(queries: Queries, partition: number, batchNos: readonly number[]): Promise<void> {
  await queries.execute('DELETE FROM ingest.batch WHERE partition = $1 AND batch_no = ANY ($2)', [partition, batchNos]);
}

async function moveCheckpoint(queries: Queries, partition: number, streamTime: number): Promise<void> {
  await queries.execute(
    `INSERT INTO ingest.checkpoint AS checkpoint (partition, stream_time) VALUES ($1, $2)
     ON CONFLICT (partition) DO UPDATE SET stream_time = greatest(checkpoint.stream_time, excluded.stream_time)`,
    [partition, streamTime],
  );
}
