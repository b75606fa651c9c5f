/**
 * Rollups against their raw tables. Which rollups there are, and what they hold, is asked of ClickHouse: every materialized
 * view `TO` a table that has the columns `bucket` (a time, at most a day wide) and `rows`.
 */
import { type ClickHouse, identifier } from '#clickhouse/client.ts';

interface View {
  readonly target: string;
  /** The raw table that it reads. */
  readonly source: string;
  /** Its SELECT with `{source}` in place of that table. */
  readonly select: string;
}

interface BucketRow {
  bucket: number;
  rows: number;
}

const dayMs = 86_400_000;

/** Times (epoch ms) whose UTC days are looked at. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

export class Rollups {
  readonly #clickhouse: ClickHouse;

  constructor(clickhouse: ClickHouse) {
    this.#clickhouse = clickhouse;
  }

  /**
   * Compares every rollup of a raw table with what its views make of the raw rows, and rebuilds the buckets that differ.
   * Nobody may insert into the partition meanwhile.
   * @returns how many buckets were wrong.
   * @throws ClickHouseFailure
   */
  async repair(table: string, partition: string, range: TimeRange): Promise<number> {
    const views = await this.#views();
    const targets = new Set(views.filter((view) => view.source === table).map((view) => view.target));
    let wrong = 0;
    for (const target of targets) {
      const feeding = views.filter((view) => view.target === target);
      const buckets = await this.#wrongBuckets(target, feeding, range);
      if (buckets.length > 0) await this.#rebuild(target, feeding, partition, buckets, range);
      wrong += buckets.length;
    }
    return wrong;
  }

  async #views(): Promise<View[]> {
    const rows = await this.#clickhouse.query<{ database: string; as_select: string; create_table_query: string }>(
      `SELECT database, as_select, create_table_query FROM system.tables
       WHERE database = currentDatabase() AND engine = 'MaterializedView'`,
    );
    const views: View[] = [];
    for (const { database, as_select, create_table_query } of rows) {
      const prefix = `(?:\`?${database}\`?\\.)?\`?(\\w+)\`?`;
      const target = new RegExp(`\\bTO ${prefix}`).exec(create_table_query)?.[1];
      const from = new RegExp(`\\bFROM ${prefix}`).exec(as_select);
      if (target === undefined || from?.[1] === undefined) continue;
      views.push({ target, source: from[1], select: as_select.replace(from[0], 'FROM {source}') });
    }
    return views;
  }

  /** Buckets (epoch seconds) in which a table does not hold as many rows as the views make. */
  async #wrongBuckets(table: string, views: readonly View[], range: TimeRange): Promise<number[]> {
    const params = paramsOf(range);
    const wanted = await this.#clickhouse.query<BucketRow>(
      `SELECT toUnixTimestamp(bucket) AS bucket, sum(rows) AS rows FROM (${views
        .map((view) => `SELECT bucket, rows FROM (${selectOf(view)})`)
        .join(' UNION ALL ')}) GROUP BY bucket`,
      params,
    );
    const there = await this.#clickhouse.query<BucketRow>(
      `SELECT toUnixTimestamp(bucket) AS bucket, sum(rows) AS rows FROM ${identifier(table)}
       WHERE bucket >= fromUnixTimestamp64Milli({from:Int64}) AND bucket < fromUnixTimestamp64Milli({to:Int64}) GROUP BY bucket`,
      params,
    );
    const counts = new Map(wanted.map((row) => [Number(row.bucket), Number(row.rows)]));
    for (const row of there) {
      const bucket = Number(row.bucket);
      if (counts.get(bucket) === Number(row.rows)) counts.delete(bucket);
      else if (!counts.has(bucket)) counts.set(bucket, 0);
    }
    return [...counts.keys()];
  }

  /** A partition anew: right buckets as they are, wrong ones from raw, put in place at once. */
  async #rebuild(
    target: string,
    views: readonly View[],
    partition: string,
    buckets: readonly number[],
    range: TimeRange,
  ): Promise<void> {
    const copy = `repair_${target}_${partition}`;
    const settings = { insert_deduplicate: 0, async_insert: 0 };
    const params = { ...paramsOf(range), buckets: [...buckets], partition };
    await this.#clickhouse.command(`DROP TABLE IF EXISTS ${identifier(copy)} SYNC`);
    await this.#clickhouse.command(`CREATE TABLE ${identifier(copy)} AS ${identifier(target)}`);
    await this.#clickhouse.command(
      `INSERT INTO ${identifier(copy)} SELECT * FROM ${identifier(target)}
       WHERE _partition_id = {partition:String} AND toUnixTimestamp(bucket) NOT IN {buckets:Array(UInt32)}`,
      params,
      settings,
    );
    for (const view of views) {
      const columns = await this.#clickhouse.query<{ name: string }>(`DESCRIBE TABLE (${selectOf(view)})`, params);
      const names = columns.map((column) => identifier(column.name)).join(', ');
      await this.#clickhouse.command(
        `INSERT INTO ${identifier(copy)} (${names}) SELECT ${names} FROM (${selectOf(view)})
         WHERE toUnixTimestamp(bucket) IN {buckets:Array(UInt32)}`,
        params,
        settings,
      );
    }
    await this.#clickhouse.command(
      `ALTER TABLE ${identifier(target)} REPLACE PARTITION ID '${partition.replaceAll(/\D/g, '')}' FROM ${identifier(copy)}`,
    );
    await this.#clickhouse.command(`DROP TABLE ${identifier(copy)} SYNC`);
  }
}

/** A view's SELECT over the raw rows of the range alone. */
function selectOf(view: View): string {
  const rows = `(SELECT * FROM ${identifier(view.source)} WHERE time >= fromUnixTimestamp64Milli({from:Int64}) AND time < fromUnixTimestamp64Milli({to:Int64}))`;
  return view.select.replace('{source}', () => rows);
}

/** Whole UTC days, so that no bucket is cut. */
function paramsOf(range: TimeRange): { from: number; to: number } {
  return { from: Math.floor(range.from / dayMs) * dayMs, to: (Math.floor(range.to / dayMs) + 1) * dayMs };
}
