/** GET /links/{id}/stats: the totals, time series and breakdowns of one link. */
import { type TSchema, Type } from 'typebox';
import { tenantOf } from '#api/access.ts';
import type { UserCaller } from '#api/route.ts';
import { type Breakdown, type BreakdownRow, breakdownOf, breakdowns, lastClick } from '#clickhouse/queries/link.ts';
import type { Scope } from '#clickhouse/queries/scope.ts';
import { type FigureRow, series } from '#clickhouse/queries/series.ts';
import { isoTime } from '#common/clock.ts';
import { DAY_MS } from '#common/durations.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import type { QueryRunner } from './ask.ts';
import { keyOfScope } from './count-keyed-cache.ts';
import type { AnalyticsDeps } from './deps.ts';
import { exampleMetrics, metricsFields, type Totals, totalsOf, totalsSchema } from './metrics.ts';
import { linkStatsQuery, querySchema, readFilters } from './parameters.ts';
import { type AnalyticsQuestion, finishQuestion, oldestShownMs } from './question.ts';
import { bucketsOf, seriesOf } from './timeseries.ts';
import { VisibleLinks } from './visible.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
/** Maximum values of a breakdown; all others are combined as `other`. */
const valuesMax = 10;
const recentDays = 45;

function breakdownSchema(name: Breakdown): TSchema {
  return Type.Array(
    Type.Object({
      [name]: Type.Union([Type.String(), Type.Null()]),
      clicks: Type.Integer(),
      is_rest: Type.Optional(Type.Boolean({ description: 'True for `other`, which sums all remaining values.' })),
    }),
  );
}

export const linkStats = route({
  method: 'GET',
  path: '/links/{id}/stats',
  operationId: 'getLinkStats',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Links',
  summary: 'Get the statistics of a link',
  description:
    'Also works for a deleted link, whose history is kept. Each breakdown has the ten most common values and `other`, which has `is_rest: true`. null means unknown (for referrers: no referrer).',
  params: Type.Object({ id: Type.String() }),
  query: querySchema(linkStatsQuery),
  answers: {
    200: {
      description: 'The statistics of the link.',
      schema: Type.Object(
        {
          link_id: Type.String(),
          start: Type.String(),
          end: Type.String(),
          timezone: Type.String(),
          granularity: Type.String(),
          totals: totalsSchema,
          timeseries: Type.Array(
            Type.Object({ start: Type.String(), ...metricsFields }, { title: 'LinkMetricsBucket' }),
          ),
          ...Object.fromEntries(breakdowns.map((name) => [`by_${name}`, breakdownSchema(name)])),
          last_clicked_at: Type.Union([Type.String(), Type.Null()]),
          as_of: Type.String(),
        },
        { title: 'LinkStats' },
      ),
      example: {
        link_id: 'lnk_01kzg3v5k2e4z9n7q8w6r5t4y3',
        start: '2026-11-20T00:00:00.000Z',
        end: '2026-11-21T00:00:00.000Z',
        timezone: 'UTC',
        granularity: 'day',
        totals: { ...exampleMetrics, bot_clicks: 2, organic_installs: 0 },
        timeseries: [{ start: '2026-11-20T00:00:00.000Z', ...exampleMetrics }],
        by_platform: [
          { platform: 'ios', clicks: 700 },
          { platform: 'android', clicks: 500 },
        ],
        by_country: [{ country: 'DE', clicks: 1200 }],
        by_browser: [{ browser: 'Safari', clicks: 1200 }],
        by_os: [{ os: 'iOS', clicks: 1200 }],
        by_referrer: [{ referrer: null, clicks: 1200 }],
        last_clicked_at: '2026-11-20T17:04:05.678Z',
        as_of: '2026-11-21T12:00:00.000Z',
      },
    },
  },
  async handle(deps, { caller, params, query }) {
    const visible = new VisibleLinks(deps.tenancy, tenantOf(caller));
    const face = (await visible.links([params.id])).get(params.id);
    if (!face)
      return (
        (await visible.refuse('link', [params.id])) ?? new Rejection('NOT_FOUND', 'There is no link with this id.')
      );
    const narrowed = readFilters(query);
    if (narrowed instanceof Rejection) return narrowed;
    const asked = await finishQuestion(deps, {
      caller,
      query,
      organization_ids: [face.organization_id],
      visible,
      filters: {
        ...narrowed,
        app_id: { values: [face.app_id], isExclusion: false },
        link_id: { values: [face.id], isExclusion: false },
      },
    });
    if (asked instanceof Rejection) return asked;
    const { period } = asked;
    const buckets = bucketsOf(period, query.granularity);
    if (buckets instanceof Rejection) return buckets;
    const found = await figuresOfLink(asked, buckets.starts, deps);
    if (found instanceof Rejection) return found;
    const { totals, rows, values, lastMs } = found;
    return {
      status: 200,
      body: {
        link_id: face.id,
        start: isoTime(period.start_ms),
        end: isoTime(period.end_ms),
        timezone: period.zone.name,
        granularity: buckets.granularity,
        totals,
        timeseries: seriesOf(buckets.starts, rows),
        ...Object.fromEntries(breakdowns.map((name) => [`by_${name}`, valuesOf(name, values)])),
        last_clicked_at: lastMs > 0 ? isoTime(lastMs) : null,
        as_of: isoTime(found.asOfMs),
      },
    };
  },
});

interface LinkFigures {
  readonly totals: Totals;
  /** The figures by bucket. */
  readonly rows: readonly FigureRow[];
  readonly values: readonly BreakdownRow[];
  /** 0 if there is no click. */
  readonly lastMs: number;
  readonly asOfMs: number;
}

async function figuresOfLink(
  { scope, queries, kept }: AnalyticsQuestion,
  startsMs: readonly number[],
  deps: AnalyticsDeps,
): Promise<LinkFigures | Rejection> {
  const nowMs = deps.clock();
  const asOfMs = await queries.asOf();
  // Visitors are counted per UTC day. If no bucket boundary splits a day, buckets add up; otherwise the total is
  // queried.
  const addUp = [scope.start_ms, ...startsMs.slice(1), scope.end_ms].every((ms) => ms % DAY_MS === 0);
  // A range that reaches the present contains the last click, if there is any.
  const reachesNow = scope.end_ms > nowMs && !scope.include_bots;
  const key = keyOfScope(scope, 'breakdown');
  const askValues = () => queries.rows<BreakdownRow>(breakdownOf(scope, valuesMax));
  const [found, early, earlier] = await Promise.all([
    queries.together<FigureRow>(series(scope, startsMs, { withBots: true, withWhole: !addUp })),
    kept.breakdowns.isAtRest(key) ? undefined : askValues(),
    reachesNow ? 0 : lastClickMs(queries, scope, deps),
  ]);
  if (found instanceof Rejection) return found;
  const rows = found.filter((row) => row.slot !== 0);
  const totals = totalsOf(addUp ? rows : found.filter((row) => row.slot === 0 || row.f_clicks === undefined));
  const known = early === undefined ? kept.breakdowns.get(key, totals.clicks) : undefined;
  const values = early ?? known ?? (await askValues());
  if (values instanceof Rejection) return values;
  if (earlier instanceof Rejection) return earlier;
  if (known === undefined) kept.breakdowns.put(key, values[0]?.total ?? 0, values);
  const within = reachesNow ? (values[0]?.last_ms ?? 0) : earlier;
  const lastMs = reachesNow && within === 0 ? await lastClickMs(queries, scope, deps) : within;
  return lastMs instanceof Rejection ? lastMs : { totals, rows, values, lastMs, asOfMs };
}

/**
 * 0 if there is no click. Most requested links were clicked recently, so the last months are searched first, which is
 * faster.
 */
async function lastClickMs(queries: QueryRunner, scope: Scope, deps: AnalyticsDeps): Promise<number | Rejection> {
  const oldestMs = oldestShownMs(deps);
  for (const sinceMs of [Math.max(deps.clock() - recentDays * DAY_MS, oldestMs), oldestMs]) {
    const rows = await queries.rows<{ last_ms: number }>(lastClick(scope, sinceMs));
    if (rows instanceof Rejection) return rows;
    const last = rows[0]?.last_ms ?? 0;
    if (last > 0) return last;
  }
  return 0;
}

function valuesOf(name: Breakdown, rows: readonly BreakdownRow[]): object[] {
  const mine = rows.filter((row) => row.breakdown === name);
  const rest = (mine[0]?.total ?? 0) - mine.reduce((sum, row) => sum + row.clicks, 0);
  const values: object[] = mine.map(({ value, clicks }) => ({ [name]: value === '' ? null : value, clicks }));
  if (rest > 0) values.push({ [name]: 'other', clicks: rest, is_rest: true });
  return values;
}
