/** GET /analytics/page: all figures of one dashboard page in one request. */
import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import type { RankedBy } from '#clickhouse/queries/ranking.ts';
import { type FilterColumn, filterColumns } from '#clickhouse/queries/scope.ts';
import { type FigureRow, series } from '#clickhouse/queries/series.ts';
import { isoTime } from '#common/clock.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { type BreakdownPage, breakdownPage, breakdownRow, breakdownSort, exampleBreakdownRow } from './breakdown.ts';
import { granularities } from './buckets.ts';
import type { AnalyticsDeps } from './deps.ts';
import { conversionField, conversionSchema, currencyQuery } from './exchange-rates.ts';
import { exampleMetrics, metricsFields, totalsOf, totalsSchema } from './metrics.ts';
import { changeSchema, comparison, exampleComparison, previousSchema } from './overview.ts';
import { commonQuery, oneOf, querySchema } from './parameters.ts';
import { type AnalyticsQuestion, readQuestion } from './question.ts';
import { bucketsOf, plain } from './timeseries.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
const breakdownsMax = 10;
const rowsOfBreakdown = 10;
/** Concurrent breakdown queries; few, so that one page does not take all slots of its organization. */
const breakdownsAtOnce = 2;
const breakdownsDefault = 'link_id,campaign,platform,country';

const isField = (name: string): name is FilterColumn => (filterColumns as readonly string[]).includes(name);

export const analyticsPage = route({
  method: 'GET',
  path: '/analytics/page',
  operationId: 'getAnalyticsPage',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'Get totals, time series and breakdowns in one request',
  description: `The answers of /analytics/overview, /analytics/timeseries and several /analytics/breakdown (the first ${rowsOfBreakdown} rows of each) for the same range and filters. Counts as one request.`,
  query: querySchema({
    ...commonQuery,
    granularity: Type.Optional(oneOf(granularities, 'Default: chosen to fit the range.')),
    previous: Type.Optional(
      Type.Boolean({ description: 'Whether to add the totals of the previous period and the change; default false.' }),
    ),
    breakdowns: Type.Optional(
      Type.String({
        maxLength: 400,
        description: `Up to ${breakdownsMax} fields, separated by commas; none if empty. Default: ${breakdownsDefault}. Fields: ${filterColumns.join(', ')}.`,
      }),
    ),
    sort_by: breakdownSort,
    currency: currencyQuery,
  }),
  answers: {
    200: {
      description: 'The statistics. They include every record accepted up to `as_of`.',
      schema: Type.Object(
        {
          start: Type.String(),
          end: Type.String(),
          timezone: Type.String(),
          granularity: Type.String(),
          totals: totalsSchema,
          previous: Type.Union([previousSchema, Type.Null()]),
          change: Type.Union([changeSchema, Type.Null()]),
          timeseries: Type.Array(
            Type.Object({ start: Type.String(), ...metricsFields }, { title: 'PageMetricsBucket' }),
          ),
          breakdowns: Type.Array(
            Type.Object(
              {
                by: Type.String(),
                total: Type.Integer({ description: 'Number of values in total; `data` contains the first ones.' }),
                data: Type.Array(breakdownRow),
              },
              { title: 'PageBreakdown' },
            ),
            { description: 'In the requested order.' },
          ),
          conversion: Type.Optional(conversionSchema),
          as_of: Type.String(),
        },
        { title: 'AnalyticsPage' },
      ),
      example: {
        start: '2026-10-23T00:00:00.000Z',
        end: '2026-11-22T00:00:00.000Z',
        timezone: 'UTC',
        granularity: 'day',
        ...exampleComparison,
        timeseries: [{ start: '2026-10-23T00:00:00.000Z', ...exampleMetrics }],
        breakdowns: [{ by: 'platform', total: 1, data: [exampleBreakdownRow] }],
        as_of: '2026-11-21T12:00:00.000Z',
      },
    },
  },
  async handle(deps, { caller, query }) {
    const fields = fieldsOf(query.breakdowns ?? breakdownsDefault);
    if (fields instanceof Rejection) return fields;
    const asked = await readQuestion(deps, caller, query);
    if (asked instanceof Rejection) return asked;
    const { period } = asked;
    const buckets = bucketsOf(period, query.granularity);
    if (buckets instanceof Rejection) return buckets;
    const asOf = await asked.queries.asOf();
    const [totals, timeseries, breakdowns] = await Promise.all([
      query.previous === true ? comparison(asked, deps) : totalsAlone(asked),
      plain(asked, buckets),
      breakdownsOf(asked, fields, query.sort_by),
    ]);
    if (totals instanceof Rejection) return totals;
    if (timeseries instanceof Rejection) return timeseries;
    if (breakdowns instanceof Rejection) return breakdowns;
    return {
      status: 200,
      body: {
        start: isoTime(period.start_ms),
        end: isoTime(period.end_ms),
        timezone: period.zone.name,
        granularity: buckets.granularity,
        ...totals,
        timeseries,
        breakdowns: fields.map((by, at) => ({
          by,
          total: breakdowns[at]?.total ?? 0,
          data: breakdowns[at]?.rows ?? [],
        })),
        ...conversionField(asked.conversion),
        as_of: isoTime(asOf),
      },
    };
  },
});

function fieldsOf(text: string): readonly FilterColumn[] | Rejection {
  const names = text === '' ? [] : text.split(',').map((name) => name.trim());
  const fields = [...new Set(names.filter(isField))];
  const unknown = names.find((name) => !isField(name));
  if (unknown !== undefined)
    return invalid('breakdowns', `has an unknown field; the fields are ${filterColumns.join(', ')}`);
  return fields.length > breakdownsMax ? invalid('breakdowns', `accepts at most ${breakdownsMax} fields`) : fields;
}

async function totalsAlone({ scope, queries, conversion }: AnalyticsQuestion): Promise<object | Rejection> {
  const rows = await queries.together<FigureRow>(series(scope, [scope.start_ms], { withBots: true }));
  return rows instanceof Rejection
    ? rows
    : { totals: totalsOf(rows, conversion?.convert), previous: null, change: null };
}

async function breakdownsOf(
  asked: AnalyticsQuestion,
  fields: readonly FilterColumn[],
  sortBy: RankedBy | undefined,
): Promise<readonly BreakdownPage[] | Rejection> {
  const found: BreakdownPage[] = [];
  for (let at = 0; at < fields.length; at += breakdownsAtOnce) {
    const some = fields.slice(at, at + breakdownsAtOnce);
    const pages = await Promise.all(
      some.map((by) => breakdownPage(asked, by, sortBy, { limit: rowsOfBreakdown, offset: 0 })),
    );
    for (const page of pages) {
      if (page instanceof Rejection) return page;
      found.push(page);
    }
  }
  return found;
}
