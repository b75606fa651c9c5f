/** Clicks by people (not bots) on the links of an app, by day. */
import { type FigureRow, figureParts } from '#clickhouse/queries/figures.ts';
import { DAY_MS } from '#common/durations.ts';
import { Rejection } from '#common/http/rejection.ts';
import { QueryRunner } from './analytics/ask.ts';
import type { AnalyticsParts } from './analytics/deps.ts';

/** @param daysMs starts of days in UTC, in order; they are the keys of the result, which omits days without clicks. */
export async function clicksOfApp(
  analytics: AnalyticsParts,
  app: { readonly id: string; readonly organization_id: string },
  daysMs: readonly number[],
): Promise<ReadonlyMap<number, number> | Rejection> {
  const scope = {
    organization_ids: [app.organization_id],
    start_ms: daysMs[0] ?? 0,
    end_ms: (daysMs.at(-1) ?? 0) + DAY_MS,
    filters: { app_id: { values: [app.id], isExclusion: false } },
    include_bots: false,
  };
  const keys = { slots_ms: daysMs, withUniques: false, withBots: false };
  const queries = new QueryRunner(analytics, app.organization_id);
  const rows = await queries.together<FigureRow>(figureParts(scope, keys, ['clicks']));
  return rows instanceof Rejection ? rows : new Map(rows.map((row) => [row.slot, row.f_clicks ?? 0]));
}
