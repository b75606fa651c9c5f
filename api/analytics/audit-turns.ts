/** Decides which API process audits an hour: one per installation; the others report its result. */
import type { AuditFigures, HourReport } from '#clickhouse/queries/audit.ts';
import type { LostFrames } from '#clickhouse/queries/audit-frames.ts';
import { type LedgerRow, ledgerFrom } from '#clickhouse/queries/missing-rows.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import type { Queries } from '#common/stores/postgres.ts';

/** Longer than the audit of an hour takes: if the auditing process dies, another one takes over after this time. */
const claimMinutes = 10;
const keptMs = 30 * DAY_MS;
/** Hours without an API process are audited later if they are not older. */
const missedMaxMs = 7 * DAY_MS;

/** `mine`: this process audits the hour now. `others`: another process does. */
export type AuditTurn =
  | { readonly kind: 'mine' | 'others' }
  | { readonly kind: 'done'; readonly figures: AuditFigures };

/** Each operation may fail with PostgresUnavailable. `hour` is the beginning of the hour, epoch ms. */
export interface AuditTurns {
  begin(hour: number): Promise<AuditTurn>;
  /** The hour to audit next: the first one after the audited ones, if the given one is the last that has ended. */
  due(last: number): Promise<number>;
  /** What ingest has stored, as far as it is to be checked in this hour. */
  ledger(hour: number): Promise<readonly LedgerRow[]>;
  /** Also queues webhook messages about failures that the previous hour did not have. */
  done(hour: number, report: HourReport): Promise<void>;
  /** Frames that journals have lost since a time, epoch ms. */
  lostSince(from: number): Promise<LostFrames[]>;
  /** Releases an hour that could not be audited, so that another process may try. */
  giveUp(hour: number): Promise<void>;
}

export class PostgresAuditTurns implements AuditTurns {
  readonly #db: Queries;
  readonly #owner: string;

  /** @param owner unique to this process. */
  constructor(db: Queries, owner: string) {
    this.#db = db;
    this.#owner = owner;
  }

  async begin(hour: number): Promise<AuditTurn> {
    await this.#db.execute(
      `DELETE FROM hourly_audits
        WHERE hour < least($1::bigint, extract(epoch FROM signpost_deletion_time()) * 1000) - ${keptMs}`,
      [hour],
    );
    // An hour that has not ended by Postgres' clock is not audited. One that was claimed by a clock far ahead is audited again.
    const claimed = await this.#db.execute(
      `INSERT INTO hourly_audits AS known (hour, owner, claimed_until)
       SELECT $1::bigint, $2::text, now() + make_interval(mins => $3) WHERE $1::bigint + ${HOUR_MS} <= extract(epoch FROM now()) * 1000
       ON CONFLICT (hour) DO UPDATE SET owner = excluded.owner, claimed_until = excluded.claimed_until, figures = NULL, failures = '[]'
         WHERE known.claimed_until > now() + 2 * make_interval(mins => $3)
            OR known.figures IS NULL AND (known.claimed_until < now() OR known.owner = excluded.owner)`,
      [hour, this.#owner, claimMinutes],
    );
    if (claimed > 0) return { kind: 'mine' };
    const [row] = await this.#db.query<{ figures: AuditFigures | null }>(
      'SELECT figures FROM hourly_audits WHERE hour = $1',
      [hour],
    );
    return row?.figures ? { kind: 'done', figures: row.figures } : { kind: 'others' };
  }

  async due(last: number): Promise<number> {
    const [row] = await this.#db.query<{ hour: number | null }>(
      'SELECT max(hour) AS hour FROM hourly_audits WHERE hour < $1 AND figures IS NOT NULL',
      [last],
    );
    return Math.max((row?.hour ?? last - HOUR_MS) + HOUR_MS, last - missedMaxMs);
  }

  ledger(hour: number): Promise<readonly LedgerRow[]> {
    return ledgerFrom(this.#db, hour);
  }

  async done(hour: number, { figures, failures }: HourReport): Promise<void> {
    await this.#db.execute('UPDATE hourly_audits SET figures = $2, failures = $3 WHERE hour = $1 AND figures IS NULL', [
      hour,
      JSON.stringify(figures),
      JSON.stringify(failures),
    ]);
  }

  lostSince(from: number): Promise<LostFrames[]> {
    return lostFramesSince(this.#db, from);
  }

  async giveUp(hour: number): Promise<void> {
    await this.#db.execute(
      'UPDATE hourly_audits SET claimed_until = now() WHERE hour = $1 AND owner = $2 AND figures IS NULL',
      [hour, this.#owner],
    );
  }
}

const lostFramesMax = 10_000;

/** The last of the frames that journals have lost since a time, epoch ms. */
export function lostFramesSince(db: Pick<Queries, 'query'>, from: number): Promise<LostFrames[]> {
  return db.query<LostFrames>(
    `SELECT partition AS log_partition, kind, producer_id, frame_from, frame_to, records,
            floor(extract(epoch FROM noted_at) * 1000)::bigint AS noted_at
     FROM ingest.lost_frames WHERE noted_at >= to_timestamp($1 / 1000.0) ORDER BY noted_at DESC LIMIT $2`,
    [from, lostFramesMax],
    'lost_frames_since',
  );
}

export interface AuditedHour {
  /** The beginning of the hour, epoch ms. */
  readonly hour: number;
  readonly figures: AuditFigures;
}

/** The audited hours since a time, oldest first. */
export function auditsFrom(db: Pick<Queries, 'query'>): (sinceMs: number) => Promise<AuditedHour[]> {
  const sql = 'SELECT hour, figures FROM hourly_audits WHERE hour >= $1 AND figures IS NOT NULL ORDER BY hour';
  return (sinceMs) => db.query<AuditedHour>(sql, [sinceMs], 'audits_since');
}
