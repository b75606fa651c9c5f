/** Turns a request into a question for ClickHouse: organizations, period and filters. */
import { readableOrganizations, tenantOf } from '#api/access.ts';
import type { UserCaller } from '#api/route.ts';
import { firstDay } from '#clickhouse/queries/link.ts';
import type { Filters, Scope } from '#clickhouse/queries/scope.ts';
import { DAY_MS } from '#common/durations.ts';
import { Rejection } from '#common/http/rejection.ts';
import { QueryRunner } from './ask.ts';
import type { AnalyticsDeps, FigureCaches } from './deps.ts';
import { Conversion } from './exchange-rates.ts';
import { linksOfTags } from './link-tags.ts';
import { type CommonQuery, readFilters } from './parameters.ts';
import { type Period, periodOf } from './period.ts';
import { VisibleLinks } from './visible.ts';

export interface AnalyticsQuestion {
  /** When it was asked, epoch milliseconds: the end of a period for which no end was given. */
  readonly askedMs: number;
  readonly period: Period;
  readonly scope: Scope;
  readonly queries: QueryRunner;
  readonly visible: VisibleLinks;
  readonly kept: FigureCaches;
  /** Present only if the caller wants amounts in one currency. */
  readonly conversion?: Conversion;
}

/** The scope for another period than the requested one, limited to the retention. */
export function scopeWithin(scope: Scope, period: Period, deps: AnalyticsDeps): Scope {
  const start_ms = Math.max(period.start_ms, oldestShownMs(deps));
  return { ...scope, start_ms, end_ms: Math.max(period.end_ms, start_ms) };
}

/**
 * Rounded to whole days, so that no rollup cell is split, and to days that no table has begun to drop: rollup rows of a
 * day are dropped once its start is too old, raw rows later.
 */
export function oldestShownMs({ clock, analytics }: AnalyticsDeps): number {
  return Math.max(0, Math.ceil(clock() / DAY_MS - analytics.retentionDays) * DAY_MS);
}

export async function readQuestion(
  deps: AnalyticsDeps,
  caller: UserCaller,
  query: CommonQuery & { readonly currency?: string },
): Promise<AnalyticsQuestion | Rejection> {
  const organization_ids = await readableOrganizations(deps.db, caller, query.organization_id);
  if (organization_ids instanceof Rejection) return organization_ids;
  const filters = readFilters(query);
  if (filters instanceof Rejection) return filters;
  const visible = new VisibleLinks(deps.tenancy, tenantOf(caller, organization_ids));
  for (const [kind, filter] of [
    ['app', filters.app_id],
    ['link', filters.link_id],
  ] as const) {
    const refusal = filter ? await visible.refuse(kind, filter.values) : null;
    if (refusal) return refusal;
  }
  return finishQuestion(deps, { caller, query, filters, organization_ids, visible });
}

/**
 * The filters of a caller that is restricted to some apps: whatever they request, only records of these apps are read.
 */
export function filtersWithin(caller: UserCaller, filters: Filters): Filters {
  const allowed = caller.key?.app_ids;
  if (!allowed) return filters;
  const { app_id: asked } = filters;
  const isAsked = (id: string) => asked === undefined || asked.values.includes(id) !== asked.isExclusion;
  return { ...filters, app_id: { values: allowed.filter(isAsked), isExclusion: false } };
}

export async function finishQuestion(
  deps: AnalyticsDeps,
  known: {
    readonly caller: UserCaller;
    readonly query: CommonQuery & { readonly currency?: string };
    readonly filters: Filters;
    readonly organization_ids: readonly string[];
    readonly visible: VisibleLinks;
    /** The queue key; default: the first organization. */
    readonly queueKey?: string;
  },
): Promise<AnalyticsQuestion | Rejection> {
  const { caller, query, organization_ids, visible } = known;
  const { tag } = known.filters;
  const tagged = tag && (await linksOfTags(visible, tag));
  if (tagged instanceof Rejection) return tagged;
  const filters = filtersWithin(caller, { ...known.filters, ...(tagged ? { tag: tagged } : {}) });
  const include_bots = query.include_bots === true;
  // Callers without an organization have their own queue key.
  const queries = new QueryRunner(deps.analytics, known.queueKey ?? organization_ids[0] ?? caller.user_id);
  const bare: Scope = { organization_ids, start_ms: 0, end_ms: 0, filters, include_bots };
  const askedMs = deps.clock();
  const period = await periodOf(query, askedMs, async () => {
    const rows = await queries.rows<{ first_ms: number }>(firstDay(bare));
    if (rows instanceof Rejection) return rows;
    const first = rows[0]?.first_ms ?? 0;
    return first === 0 ? 0 : Math.max(first, oldestShownMs(deps));
  });
  if (period instanceof Rejection) return period;
  const { currency } = query;
  // There is no rate of a day that has not come.
  const ratesEndMs = Math.min(period.end_ms, Math.max(deps.clock(), period.start_ms + 1));
  const conversion = currency && (await Conversion.to(currency, ratesEndMs, deps.analytics.exchangeRates));
  if (conversion instanceof Rejection) return conversion;
  const scope = scopeWithin(bare, period, deps);
  const { kept } = deps.analytics;
  return { askedMs, period, scope, queries, visible, kept, ...(conversion ? { conversion } : {}) };
}
