/**
 * Keeps the table of fences small. Each raise adds a file that is never merged, so once there are many, the table is
 * replaced by a copy with one row for each partition.
 *
 *   owner that raises: insert its row ──▶ end compactions (drop their copies) ──▶ read: if its row is gone, insert again
 *   compaction:        create a copy ──▶ fill it ──▶ sync ──▶ exchange it with the table ──▶ drop what it was
 *
 * No fence is lowered, although owners of other partitions raise theirs at the same time and any request may be late: a
 * copy has each row that was inserted before it was created; an owner that inserted a row later drops the copy, so that
 * it can't be exchanged any more, or finds that it already was. A copy has a name of its own, so a late request about an
 * earlier one fails. A process that dies leaves a copy that the next raise drops.
 */
import { randomUUID } from 'node:crypto';
import { type ClickHouse, ClickHouseFailure, identifier } from '#clickhouse/client.ts';

/** Bytes in memory, which grow by about 5 KB for each raise: some hundreds of raises. An empty table has 0.8 MB. */
const fencesBytesMax = 4_194_304;
const copyPrefix = 'fences_next_';

export class FenceCompaction {
  readonly #clickhouse: ClickHouse;
  readonly #bytesMax: number;

  constructor(clickhouse: ClickHouse, bytesMax = fencesBytesMax) {
    this.#clickhouse = clickhouse;
    this.#bytesMax = bytesMax;
  }

  /** Drops the copies of running compactions. */
  async end(): Promise<void> {
    const copies = await this.#clickhouse.query<{ name: string }>(
      'SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, {prefix:String})',
      { prefix: copyPrefix },
    );
    for (const { name } of copies) await this.#clickhouse.command(`DROP TABLE IF EXISTS ${identifier(name)} SYNC`);
  }

  /**
   * Writes to disk what the server has written to files: a small table is not synced by itself. @returns whether the
   * server did it; it may not let its user.
   */
  async sync(): Promise<boolean> {
    return await this.#isDone(() => this.#clickhouse.command('SYSTEM SYNC FILE CACHE'));
  }

  /** Replaces the table if it is large. If that fails, the table stays as it is until a later raise. */
  async run(): Promise<void> {
    const copy = `${copyPrefix}${randomUUID().replaceAll('-', '')}`;
    await this.#isDone(async () => {
      const [table] = await this.#clickhouse.query<{ bytes: number }>(
        "SELECT assumeNotNull(total_bytes) AS bytes FROM system.tables WHERE database = currentDatabase() AND name = 'fences'",
      );
      if (Number(table?.bytes) <= this.#bytesMax) return;
      await this.#replaceBy(copy);
    });
  }

  async #replaceBy(copy: string): Promise<void> {
    const name = identifier(copy);
    await this.#clickhouse.command(`CREATE TABLE ${name} AS fences`);
    try {
      const columns = 'log_partition, batch_no_min, owner';
      await this.#clickhouse.command(`INSERT INTO ${name} SELECT ${columns} FROM fences`, {}, { async_insert: 0 });
      const [low] = await this.#clickhouse.query<{ rows: number }>(
        `SELECT count() AS rows FROM fences WHERE joinGet({copy:String}, 'batch_no_min', log_partition) < batch_no_min`,
        { copy },
      );
      if (Number(low?.rows) > 0 || !(await this.sync())) return;
      await this.#clickhouse.command(`EXCHANGE TABLES fences AND ${name}`);
      // An ingest of an earlier version drops no copy.
      await this.#clickhouse.command(
        `INSERT INTO fences SELECT ${columns} FROM ${name} WHERE joinGet('fences', 'batch_no_min', log_partition) < batch_no_min`,
        {},
        { async_insert: 0 },
      );
    } finally {
      await this.#clickhouse.command(`DROP TABLE IF EXISTS ${name} SYNC`);
    }
  }

  async #isDone(work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      if (error instanceof ClickHouseFailure) return false;
      throw error;
    }
  }
}
