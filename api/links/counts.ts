/** Figures of the links of one page, of their whole history. */
import { organizationsOf } from '#api/access.ts';
import { QueryRunner } from '#api/analytics/ask.ts';
import { filtersWithin, oldestShownMs } from '#api/analytics/question.ts';
import type { ApiDeps } from '#api/deps.ts';
import type { UserCaller } from '#api/route.ts';
import { type RankedRow, ranking } from '#clickhouse/queries/ranking.ts';
import { DAY_MS } from '#common/durations.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';

const includable = ['clicks', 'installs'] as const;
type Figure = (typeof includable)[number];
type Counts = Readonly<Partial<Record<Figure, number>>>;

export function readInclude(text: string): readonly Figure[] | Rejection {
  const names = text.split(',').map((name) => name.trim());
  const known = includable.filter((name) => names.includes(name));
  return names.every((name) => includable.some((one) => one === name))
    ? known
    : invalid('include', `must be a list of ${includable.join(' and ')}`);
}

export async function countsOf(
  deps: ApiDeps,
  caller: UserCaller,
  links: readonly { readonly id: string }[],
  figures: readonly Figure[],
): Promise<ReadonlyMap<string, Counts> | Rejection> {
  if (figures.length === 0 || links.length === 0) return new Map();
  const ids = links.map(({ id }) => id);
  const organization_ids = organizationsOf(caller);
  const scope = {
    organization_ids,
    start_ms: oldestShownMs(deps),
    end_ms: (Math.floor(deps.clock() / DAY_MS) + 2) * DAY_MS,
    filters: filtersWithin(caller, { link_id: { values: ids, isExclusion: false } }),
    include_bots: false,
  };
  const options = { column: 'link_id', sortBy: 'clicks', currency: '', limit: ids.length, offset: 0 } as const;
  const queries = new QueryRunner(deps.analytics, organization_ids[0] ?? caller.user_id);
  const rows = await queries.rows<RankedRow>(ranking(scope, options));
  if (rows instanceof Rejection) return rows;
  const found = new Map(rows.map((row) => [row.id, row]));
  return new Map(ids.map((id) => [id, Object.fromEntries(figures.map((name) => [name, found.get(id)?.[name] ?? 0]))]));
}
