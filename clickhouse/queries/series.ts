/** Figures by bucket, and by the values of one column if asked. One row for each kind and currency, to be added up. */
import { type FigureKeys, figures } from './figures.ts';
import type { FilterColumn, Question, Scope } from './scope.ts';

export interface FigureRow {
  /** Beginning of the bucket, epoch seconds. */
  readonly slot: number;
  readonly grp: string;
  readonly f_clicks: number;
  readonly f_bot_clicks: number;
  readonly f_unique_clicks: number;
  readonly f_installs: number;
  readonly f_organic_installs: number;
  readonly f_events: number;
  readonly f_conversions: number;
  readonly f_currency: string;
  /** A decimal. */
  readonly f_revenue: string;
}

export function series(
  scope: Scope,
  slotsMs: readonly number[],
  options: { readonly groupBy?: FilterColumn; readonly top?: readonly string[]; readonly withBots?: boolean } = {},
): Question {
  const { groupBy, top } = options;
  const keys: FigureKeys = {
    slots_ms: slotsMs,
    ...(groupBy ? { columns: [groupBy] } : {}),
    ...(top ? { top } : {}),
    withUniques: true,
    withBots: options.withBots === true,
  };
  const { sql, params } = figures(scope, keys);
  return {
    sql: `SELECT slot, ${groupBy ? `k_${groupBy}` : "''"} AS grp, f_clicks, f_bot_clicks, f_unique_clicks,
  f_installs, f_organic_installs, f_events, f_conversions, f_currency, toString(f_revenue) AS f_revenue
FROM (${sql}) AS f`,
    params,
  };
}

/** The values of a column that have most clicks, then most installs and events. Rows: `value`. */
export function topValues(scope: Scope, column: FilterColumn, limit: number): Question {
  const { sql, params } = figures(scope, { columns: [column], withUniques: false, withBots: false });
  return {
    sql: `SELECT k_${column} AS value FROM (${sql}) GROUP BY value
HAVING sum(f_clicks) + sum(f_installs) + sum(f_events) > 0
ORDER BY sum(f_clicks) DESC, sum(f_installs) DESC, sum(f_events) DESC, value LIMIT {values_max:UInt32}`,
    params: { ...params, values_max: limit },
  };
}
