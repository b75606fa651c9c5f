/**
 * The figures of a shared page. Organization, link and campaign come from its row; a request can choose only the
 * period.
 */

import type { Filters } from '#clickhouse/queries/scope.ts';
import { type FigureRow, series } from '#clickhouse/queries/series.ts';
import { isoTime } from '#common/clock.ts';
import { Rejection } from '#common/http/rejection.ts';
import { allApps } from '#common/stores/tenancy.ts';
import { breakdownPage } from './analytics/breakdown.ts';
import { type Metrics, totalsOf } from './analytics/metrics.ts';
import { type AnalyticsQuestion, finishQuestion } from './analytics/question.ts';
import { bucketsOf, seriesOf } from './analytics/timeseries.ts';
import { VisibleLinks } from './analytics/visible.ts';
import type { ApiDeps, SharedPeriod, SharedSubject } from './deps.ts';
import type { UserCaller } from './route.ts';

const fields = ['country', 'platform', 'browser', 'referrer'] as const;
const rowsOfBreakdown = 10;

interface Found {
  /** The short link; null for a campaign. */
  readonly url: string | null;
  readonly filters: Filters;
}

/** Null if the link was deleted, or its app. */
async function find(deps: ApiDeps, { organization_id, link_id, campaign }: SharedSubject): Promise<Found | null> {
  if (link_id === null) return { url: null, filters: { campaign: only(campaign ?? '') } };
  const visible = new VisibleLinks(deps.tenancy, allApps([organization_id]));
  const link = (await visible.links([link_id])).get(link_id);
  if (!link || link.deleted) return null;
  const filters = { app_id: only(link.app_id), link_id: only(link.id) };
  return { url: deps.shortUrl(link.host, link.short_code), filters };
}

const only = (value: string) => ({ values: [value], isExclusion: false });

/** Null if there is nothing left to show. */
export async function sharedFigures(
  deps: ApiDeps,
  subject: SharedSubject,
  { interval, timezone }: SharedPeriod,
): Promise<object | null | Rejection> {
  const found = await find(deps, subject);
  if (!found) return null;
  const asked = await finishQuestion(deps, {
    caller: visitorOf(subject),
    query: { ...(interval ? { interval } : {}), ...(timezone === undefined ? {} : { timezone }) },
    organization_ids: [subject.organization_id],
    visible: new VisibleLinks(deps.tenancy, allApps([subject.organization_id])),
    filters: found.filters,
    // Visitors share a separate queue, so that members of the organization do not wait for them.
    queueKey: subject.id,
  });
  if (asked instanceof Rejection) return asked;
  const { period, queries, scope } = asked;
  const buckets = bucketsOf(period, undefined);
  if (buckets instanceof Rejection) return buckets;
  const asOf = await queries.asOf();
  const [whole, parts, breakdowns] = await Promise.all([
    queries.together<FigureRow>(series(scope, [scope.start_ms])),
    queries.together<FigureRow>(series(scope, buckets.starts)),
    breakdownsOf(asked),
  ]);
  if (whole instanceof Rejection) return whole;
  if (parts instanceof Rejection) return parts;
  if (breakdowns instanceof Rejection) return breakdowns;
  return {
    url: found.url,
    start: isoTime(period.start_ms),
    end: isoTime(period.end_ms),
    timezone: period.zone.name,
    granularity: buckets.granularity,
    totals: shown(totalsOf(whole), subject),
    timeseries: seriesOf(buckets.starts, parts).map(({ start, ...metrics }) => ({ start, ...shown(metrics, subject) })),
    breakdowns,
    as_of: isoTime(asOf),
  };
}

/** May only read this organization. */
function visitorOf(subject: SharedSubject): UserCaller {
  const memberships = [{ organization_id: subject.organization_id, role: 'viewer' } as const];
  return { kind: 'user', user_id: subject.id, memberships };
}

/** An explicit list, so that metrics added later are not published by accident. */
function shown(metrics: Metrics, { shows_revenue }: SharedSubject): object {
  const { clicks, unique_clicks, installs, events, conversion_rate, revenue } = metrics;
  return { clicks, unique_clicks, installs, events, conversion_rate, revenue: shows_revenue ? revenue : [] };
}

/** Sequential, so that a page takes one slot of the queue instead of four. */
async function breakdownsOf(asked: AnalyticsQuestion): Promise<readonly object[] | Rejection> {
  const found: object[] = [];
  for (const by of fields) {
    const page = await breakdownPage(asked, by, undefined, { limit: rowsOfBreakdown, offset: 0 });
    if (page instanceof Rejection) return page;
    found.push({
      by,
      data: page.rows.map(({ value, clicks }) => ({ value, clicks })).filter(({ clicks }) => clicks > 0),
    });
  }
  return found;
}
