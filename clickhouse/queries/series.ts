/**
 * Queries figures by bucket, and optionally by the values of one column. There are rows of each kind, which the caller
 * combines.
 */
import { kinds } from '#clickhouse/rollups.ts';
import { type FigureKeys, figureParts, figures } from './figures.ts';
import type { FilterColumn, Question, Scope } from './scope.ts';

export { type FigureRow, slotOf } from './figures.ts';

export interface SeriesOptions {
  /** Its values are in `grp`. */
  readonly groupBy?: FilterColumn;
  readonly top?: readonly string[];
  readonly withBots?: boolean;
  /** For clicks, adds a row for all buckets together, whose `slot` is 0. */
  readonly withWhole?: boolean;
}

export function series(scope: Scope, slotsMs: readonly number[], options: SeriesOptions = {}): Question[] {
  const { groupBy, top } = options;
  const keys: FigureKeys = {
    slots_ms: slotsMs,
    ...(groupBy ? { columns: [groupBy] } : {}),
    ...(top ? { top } : {}),
    withUniques: true,
    withBots: options.withBots === true,
    withWhole: options.withWhole === true,
  };
  const parts = figureParts(scope, keys, kinds);
  if (!groupBy) return parts;
  return parts.map(({ sql, params }) => ({ sql: sql.replaceAll(`k_${groupBy}`, 'grp'), params }));
}

/** The values of a column with the most clicks, then the most installs and events. Rows: `value`. */
export function topValues(scope: Scope, column: FilterColumn, limit: number): Question {
  const { sql, params } = figures(scope, {
    columns: [column],
    withUniques: false,
    withRevenue: false,
    withBots: false,
  });
  return {
    sql: `SELECT k_${column} AS value FROM (${sql}) GROUP BY value
HAVING sum(f_clicks) + sum(f_installs) + sum(f_opens) + sum(f_events) > 0
ORDER BY sum(f_clicks) DESC, sum(f_installs) DESC, sum(f_events) DESC, value LIMIT {values_max:UInt32}`,
    params: { ...params, values_max: limit },
  };
}
