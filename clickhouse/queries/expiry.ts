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
  const rows = await client.query<{ now_ms: number; name: string; days: number }>(
    `SELECT toUnixTimestamp64Milli(now64(3)) AS now_ms, name,
            toUInt32OrZero(extract(engine_full, 'TTL toDateTime\\\\(time\\\\) \\\\+ toIntervalDay\\\\((\\\\d+)\\\\)')) AS days
     FROM system.tables WHERE database = currentDatabase() AND days > 0`,
  );
  const ageMaxOf = new Map(rows.map(({ name, days }) => [name, days * DAY_MS]));
  return { now: Number(rows[0]?.now_ms), ageMaxOf };
}
