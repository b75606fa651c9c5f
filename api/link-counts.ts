/** All-time counts for the links of one page. */
import { type RankedRow, ranking } from '#clickhouse/queries/ranking.ts';
import { DAY_MS } from '#common/durations.ts';
import { Rejection } from '#common/http/rejection.ts';
import type { TenantScope } from '#common/stores/tenancy.ts';
import { QueryRunner } from './analytics/ask.ts';
import type { AnalyticsDeps } from './analytics/deps.ts';
import { oldestShownMs } from './analytics/question.ts';
import type { LinkCounts, LinkFigure } from './deps.ts';

export async function countLinks(
  deps: AnalyticsDeps,
  { organizationIds, appIds }: TenantScope,
  links: readonly { readonly id: string }[],
  figures: readonly LinkFigure[],
): Promise<ReadonlyMap<string, LinkCounts> | Rejection> {
  if (figures.length === 0 || links.length === 0) return new Map();
  const ids = links.map(({ id }) => id);
  const scope = {
    organization_ids: organizationIds,
    start_ms: oldestShownMs(deps),
    end_ms: (Math.floor(deps.clock() / DAY_MS) + 2) * DAY_MS,
    filters: {
      link_id: { values: ids, isExclusion: false },
      ...(appIds ? { app_id: { values: appIds, isExclusion: false } } : {}),
    },
    include_bots: false,
  };
  const options = { column: 'link_id', sortBy: 'clicks', currency: '', limit: ids.length, offset: 0 } as const;
  const queries = new QueryRunner(deps.analytics, organizationIds[0] ?? '');
  const rows = await queries.rows<RankedRow>(ranking(scope, options));
  if (rows instanceof Rejection) return rows;
  const found = new Map(rows.map((row) => [row.id, row]));
  return new Map(ids.map((id) => [id, Object.fromEntries(figures.map((name) => [name, found.get(id)?.[name] ?? 0]))]));
}
