/** Reads stored installs and events from ClickHouse. */
import type { ClickHouse } from '#clickhouse/client.ts';
import { isInstall } from '#clickhouse/rollups.ts';
import type { IdKind, StoredId, StoredInstall, StoredRange, StoredRecord, StoredRecords } from './stored-records.ts';

const tables = {
  event: { id: 'event_id', received: 'received_at' },
  install: { id: 'install_id', received: 'time' },
} as const;

function inRange(kind: IdKind): string {
  return `${tables[kind].received} >= fromUnixTimestamp64Milli({from:Int64}) AND time >= fromUnixTimestamp64Milli({time_from:Int64})`;
}

function paramsOf(range: StoredRange): { from: number; time_from: number } {
  return { from: range.receivedFromMs, time_from: range.timeFromMs };
}

export class ClickHouseRecords implements StoredRecords {
  readonly #clickhouse: ClickHouse;

  constructor(clickhouse: ClickHouse) {
    this.#clickhouse = clickhouse;
  }

  async count(kind: IdKind, range: StoredRange): Promise<number> {
    const [counted] = await this.#clickhouse.query<{ n: number }>(
      `SELECT count() AS n FROM ${kind}s WHERE ${inRange(kind)}`,
      paramsOf(range),
    );
    return Number(counted?.n);
  }

  ids(kind: IdKind, range: StoredRange): AsyncIterable<readonly StoredId[]> {
    const { id, received } = tables[kind];
    return this.#clickhouse.stream<StoredId>(
      `SELECT app_id, ${id} AS id, toUnixTimestamp64Milli(${received}) AS at FROM ${kind}s WHERE ${inRange(kind)}`,
      paramsOf(range),
    );
  }

  async withIds(
    kind: IdKind,
    apps: readonly string[],
    ids: readonly string[],
    range: StoredRange,
  ): Promise<readonly StoredRecord[]> {
    const { id, received } = tables[kind];
    return await this.#clickhouse.query<StoredRecord>(
      `SELECT app_id, ${id} AS id, toUnixTimestamp64Milli(${received}) AS received_at, log_partition, producer_id, frame_no, idx
         FROM ${kind}s
        WHERE app_id IN {apps:Array(String)} AND ${id} IN {ids:Array(String)} AND ${inRange(kind)}`,
      { apps: [...apps], ids: [...ids], ...paramsOf(range) },
    );
  }

  /**
   * Many installs may share a device id (all zeros, where people decline tracking), so the query finds the newest by
   * time before it reads the rest of the row, and returns only that row.
   */
  async newestInstalls(
    column: 'install_id' | 'device_id',
    apps: readonly string[],
    ids: readonly string[],
  ): Promise<readonly StoredInstall[]> {
    const named = `app_id IN {apps:Array(String)} AND ${column} IN {ids:Array(String)} AND ${isInstall}`;
    return await this.#clickhouse.query<StoredInstall>(
      `SELECT app_id, device_id, install_id, link_id, click_id, platform, country, region, city, campaign,
              utm_source, utm_medium, utm_campaign, utm_term, utm_content
         FROM installs
        WHERE ${named}
          AND (app_id, ${column}, time) IN (SELECT app_id, ${column}, max(time) FROM installs WHERE ${named} GROUP BY app_id, ${column})
        ORDER BY install_id LIMIT 1 BY app_id, ${column}`,
      { apps: [...apps], ids: [...ids] },
    );
  }
}
