/** Tells a store that is unavailable, for which everything waits, from work that only fails itself. */
import { ClickHouseFailure } from '#clickhouse/client.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';

/** SQLSTATE of a statement that was ended by its time limit. */
const statementTimeout = '57014';
/** ClickHouse's codes for a query that exceeds its limit of rows, time, or memory. */
const queryLimits: ReadonlySet<number> = new Set([158, 159, 241]);

export function isOutage(err: unknown): boolean {
  if (err instanceof PostgresUnavailable) return err.code !== statementTimeout;
  return err instanceof ClickHouseFailure && err.kind === 'unavailable' && !queryLimits.has(err.code);
}
