/**
 * Finds rows that ingest has stored and ClickHouse does not have any more, of all kinds: the ledger in Postgres has the
 * number of rows by day of the batch, table and month. Rows that have expired are not missing.
 */
import { type ClickHouse, identifier, type Settings } from '#clickhouse/client.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import type { Queries } from '#common/stores/postgres.ts';
import { readExpiry } from './expiry.ts';

/** Rows of the table `ingest.ledger`. */
export interface LedgerRow {
  readonly partition: number;
  readonly batch_day: number;
  readonly raw_table: string;
  readonly month: string;
  readonly rows: number;
  readonly rows_again: number;
  readonly batch_from: number;
  readonly batch_to: number;
  readonly time_from: number;
  readonly time_to: number;
}

export interface MissingRows {
  readonly table: string;
  readonly partition: number;
  readonly month: string;
  /** When the first batch that lacks some was stored, epoch ms, to the day. */
  readonly day_ms: number;
  readonly rows: number;
}

/** The result of a comparison. */
interface LedgerReport {
  readonly missing: readonly MissingRows[];
  /** Rows that retention has removed, or may be removing. */
  readonly expired: number;
}

const settings: Settings = { max_execution_time: 600, max_rows_to_read: 0 };
/** A row may be dropped a little earlier or later than it expires. */
const marginMs = HOUR_MS;

/**
 * Reads the ledger.
 * @param hourMs for the lines to check in this hour, so that the cost does not grow with the older data: the last two
 * days of batches, and each other day once a day. What a replay has stored offsets what other days lack, so all lines
 * of its month are checked together. If absent, all lines.
 * @throws PostgresUnavailable
 */
export function ledgerFrom(db: Pick<Queries, 'query'>, hourMs?: number): Promise<LedgerRow[]> {
  return db.query<LedgerRow>(
    `SELECT partition, batch_day, raw_table, month, rows, rows_again, batch_from, batch_to, time_from, time_to FROM (
       SELECT *, max(batch_day) OVER (PARTITION BY partition) - 1 AS from_day,
              CASE WHEN bool_or(rows_again > 0) OVER together THEN max(batch_day) OVER together ELSE batch_day END AS due_day
       FROM ingest.ledger WINDOW together AS (PARTITION BY partition, raw_table, month)) AS line
     WHERE $1::integer IS NULL OR due_day >= from_day OR due_day % 24 = $1`,
    [hourMs === undefined ? null : Math.floor(hourMs / HOUR_MS) % 24],
    'ledger',
  );
}

/** @param ledger read before the call: what is stored in the meantime is not compared. @throws ClickHouseFailure */
export async function missingRows(
  client: Pick<ClickHouse, 'query'>,
  ledger: readonly LedgerRow[],
): Promise<LedgerReport> {
  if (ledger.length === 0) return { missing: [], expired: 0 };
  const { now, ageMaxOf } = await readExpiry(client);
  const stored = new Map<string, number>();
  for (const table of new Set(ledger.map(({ raw_table }) => raw_table))) {
    const lines = ledger.filter((line) => line.raw_table === table);
    for (const row of await storedRows(client, table, lines)) stored.set(keyOf({ ...row, raw_table: table }), row.rows);
  }
  let expired = 0;
  const groups = new Map<string, { missing: MissingRows | undefined; again: number }>();
  for (const line of ledger) {
    const expiresBefore = now - (ageMaxOf.get(line.raw_table) ?? Number.POSITIVE_INFINITY);
    const lack = Math.max(0, line.rows - (stored.get(keyOf(line)) ?? 0));
    const key = `${line.raw_table} ${line.partition} ${line.month}`;
    const group = groups.get(key) ?? { missing: undefined, again: 0 };
    groups.set(key, group);
    if (line.time_to >= expiresBefore) group.again += line.rows_again;
    if (line.time_from < expiresBefore + marginMs) expired += lack;
    else if (lack > 0) group.missing = withLack(group.missing, line, lack);
  }
  // A replay stores lost rows under the number of another batch, so they offset what the old one lacks.
  const missing = [...groups.values()].flatMap(({ missing, again }) =>
    missing !== undefined && missing.rows > again ? [{ ...missing, rows: missing.rows - again }] : [],
  );
  return { missing, expired };
}

function withLack(known: MissingRows | undefined, line: LedgerRow, rows: number): MissingRows {
  const day_ms = Math.min(known?.day_ms ?? Number.POSITIVE_INFINITY, line.batch_day * DAY_MS);
  const { partition, month, raw_table: table } = line;
  return { table, partition, month, day_ms, rows: (known?.rows ?? 0) + rows };
}

type Key = Pick<LedgerRow, 'raw_table' | 'partition' | 'batch_day' | 'month'>;

function keyOf({ raw_table, partition, batch_day, month }: Key): string {
  return `${raw_table} ${partition} ${batch_day} ${month}`;
}

/** Late attributions reverse and repeat rows of events, and are not in the ledger. */
const own: Readonly<Record<string, string>> = { events: 'AND NOT is_learned' };

async function storedRows(
  client: Pick<ClickHouse, 'query'>,
  table: string,
  lines: readonly LedgerRow[],
): Promise<readonly (Omit<Key, 'raw_table'> & { readonly rows: number })[]> {
  const spans = new Map<number, { first: number; last: number }>();
  for (const { partition, batch_from, batch_to } of lines) {
    const { first, last } = spans.get(partition) ?? { first: batch_from, last: batch_to };
    spans.set(partition, { first: Math.min(first, batch_from), last: Math.max(last, batch_to) });
  }
  const partitions = [...spans.keys()];
  const firsts = [...spans.values()].map(({ first }) => first);
  const lasts = [...spans.values()].map(({ last }) => last);
  return await client.query(
    `SELECT log_partition AS partition, toUInt32(intDiv(batch_no, ${DAY_MS})) AS batch_day, _partition_id AS month, count() AS rows
     FROM ${identifier(table)}
     WHERE batch_no BETWEEN {first:UInt64} AND {last:UInt64} AND intDiv(batch_no, ${DAY_MS}) IN {days:Array(UInt64)} ${own[table] ?? ''}
       AND batch_no >= transform(toUInt64(log_partition), {partitions:Array(UInt64)}, {firsts:Array(UInt64)}, {none:UInt64})
       AND batch_no <= transform(toUInt64(log_partition), {partitions:Array(UInt64)}, {lasts:Array(UInt64)}, toUInt64(0))
     GROUP BY partition, batch_day, month`,
    {
      days: [...new Set(lines.map(({ batch_day }) => batch_day))],
      ...{ partitions, firsts, lasts, none: Number.MAX_SAFE_INTEGER },
      ...{ first: Math.min(...firsts), last: Math.max(...lasts) },
    },
    settings,
  );
}
