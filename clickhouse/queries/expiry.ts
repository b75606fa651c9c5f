/** When ClickHouse drops the rows of the raw tables, by its own clock and settings. */
import type { ClickHouse } from '#clickhouse/client.ts';
import { DAY_MS } from '#common/durations.ts';

export interface Expiry {
  /** ClickHouse's clock, epoch ms. */
  readonly now: number;
  /** Age in ms at which rows of a table expire. */
  readonly ageMaxOf: ReadonlyMap<string, number>;
}

/** @throws ClickHouseFailure */
export async function readExpiry(client: Pick<ClickHouse, 'query'>): Promise<Expiry> {
  // One row, also if no table has such a TTL.
  const [row] = await client.query<{ now_ms: number; names: string[]; days: number[] }>(
    `SELECT toUnixTimestamp64Milli(now64(3)) AS now_ms, groupArray(name) AS names, groupArray(ttl_days) AS days FROM (
       SELECT name, toUInt32OrZero(extract(engine_full, 'TTL toDateTime\\\\(time\\\\) \\\\+ toIntervalDay\\\\((\\\\d+)\\\\)')) AS ttl_days
       FROM system.tables WHERE database = currentDatabase() AND ttl_days > 0)`,
  );
  if (row === undefined) throw new Error('ClickHouse returned no row for a sum.');
  const ageMaxOf = new Map(row.names.map((name, at) => [name, Number(row.days[at]) * DAY_MS]));
  return { now: Number(row.now_ms), ageMaxOf };
}
