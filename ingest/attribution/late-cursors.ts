/**
 * How far installs were examined for the events of a partition: for each log partition, the number of the last examined
 * batch.
 */
import type { Queries } from '#common/stores/postgres.ts';

export type Cursor = Readonly<Record<number, number>>;

export interface LateCursors {
  /** Null if none was ever stored. */
  read(partition: number): Promise<Cursor | null>;
  write(partition: number, cursor: Cursor): Promise<void>;
  /**
   * For each partition that ever had an owner, the number up to which all batches are decided: no row will be added at
   * or below it.
   */
  decided(): Promise<Cursor>;
}

export class PostgresLateCursors implements LateCursors {
  readonly #db: Queries;

  constructor(db: Queries) {
    this.#db = db;
  }

  async read(partition: number): Promise<Cursor | null> {
    const [row] = await this.#db.query<{ cursors: Cursor }>(
      'SELECT cursors FROM ingest.late_cursor WHERE partition = $1',
      [partition],
    );
    return row?.cursors ?? null;
  }

  async write(partition: number, cursor: Cursor): Promise<void> {
    await this.#db.execute(
      `INSERT INTO ingest.late_cursor (partition, cursors) VALUES ($1, $2)
       ON CONFLICT (partition) DO UPDATE SET cursors = excluded.cursors`,
      [partition, JSON.stringify(cursor)],
    );
  }

  async decided(): Promise<Cursor> {
    const rows = await this.#db.query<{ partition: number; batch_no: number }>(
      `SELECT partition, coalesce((SELECT min(open.batch_no) - 1 FROM ingest.batch AS open
                WHERE open.partition = last.partition AND open.batch_no > 0 AND NOT open.is_partial), last_batch_no) AS batch_no
         FROM ingest.last_batch AS last`,
      [],
      'decided_batches',
    );
    return Object.fromEntries(rows.map(({ partition, batch_no }) => [partition, batch_no]));
  }
}
