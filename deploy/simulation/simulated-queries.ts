/** The queries about retention and stored rows that ingest and the audit send, on the simulated ClickHouse. */
import type { ClickHouse, Params } from '#clickhouse/client.ts';
import { DAY_MS } from '#common/durations.ts';
import { ageMaxOf } from './clickhouse-content.ts';
import type { SimulatedClickHouse } from './simulated-clickhouse.ts';

/** Executes a query at once, without a connection. */
export function queriesOf(server: SimulatedClickHouse): Pick<ClickHouse, 'query'> {
  return {
    query: <Row>(sql: string, params?: Params) =>
      Promise.resolve(
        (sql.includes('system.tables') ? expiryOf(server) : storedRows(server, sql, params)) as unknown as Row[],
      ),
  };
}

/** As `readExpiry` asks. */
function expiryOf({ now }: SimulatedClickHouse): object[] {
  return [{ now_ms: now, names: [...ageMaxOf.keys()], days: [...ageMaxOf.values()].map((age) => age / DAY_MS) }];
}

/** As `missingRows` asks. */
function storedRows({ rows }: SimulatedClickHouse, sql: string, params: Params = {}): object[] {
  const table = /FROM `(\w+)`/.exec(sql)?.[1];
  const { days, partitions, firsts, lasts } = params as Record<string, number[]>;
  const counts = new Map<string, { partition: number; batch_day: number; month: string; rows: number }>();
  for (const row of rows) {
    const { log_partition: partition, batch_no, month } = row;
    const batch_day = Math.floor(batch_no / DAY_MS);
    const at = partitions?.indexOf(partition) ?? -1;
    const isAsked = at !== -1 && batch_no >= (firsts?.[at] ?? 0) && batch_no <= (lasts?.[at] ?? 0);
    if (row.table !== table || row.isLearned || !isAsked || days?.includes(batch_day) !== true) continue;
    const key = `${partition}:${batch_day}:${month}`;
    const known = counts.get(key) ?? { partition, batch_day, month, rows: 0 };
    counts.set(key, { ...known, rows: known.rows + 1 });
  }
  return [...counts.values()];
}
