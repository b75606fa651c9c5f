/** GET /analytics/overview: totals of a period, and their change from the previous period. */
import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import { type FigureRow, series, slotOf } from '#clickhouse/queries/series.ts';
import { isoTime } from '#common/clock.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import type { AnalyticsDeps } from './deps.ts';
import { conversionField, conversionSchema, currencyQuery } from './exchange-rates.ts';
import { bySlot, changeOf, exampleMetrics, type Totals, totalsFields, totalsOf, totalsSchema } from './metrics.ts';
import { commonQuery, querySchema } from './parameters.ts';
import { previousOf } from './period.ts';
import { type AnalyticsQuestion, oldestShownMs, readQuestion, scopeWithin } from './question.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
const ratio = Type.Union([Type.Number(), Type.Null()]);
const { revenue: _revenue, ...numbers } = totalsFields;
export const exampleTotals = { ...exampleMetrics, bot_clicks: 40, organic_installs: 12 };

export const previousSchema = Type.Object(
  { start: Type.String(), end: Type.String(), ...totalsFields },
  { title: 'PreviousMetrics' },
);
export const changeSchema = Type.Object(
  {
    ...Object.fromEntries(Object.keys(numbers).map((name) => [name, ratio])),
    revenue: Type.Array(Type.Object({ currency: Type.String(), ratio })),
  },
  { title: 'MetricsChange' },
);

export const exampleComparison = {
  totals: exampleTotals,
  previous: { start: '2026-09-23T00:00:00.000Z', end: '2026-10-23T00:00:00.000Z', ...exampleTotals, clicks: 1000 },
  change: {
    ...Object.fromEntries(Object.keys(numbers).map((name) => [name, name === 'clicks' ? 0.2 : 0])),
    revenue: [{ currency: 'EUR', ratio: 0 }],
  },
};

/** Totals of the period and of the previous one, and the change. */
export async function comparison(
  { period, scope, queries, conversion }: AnalyticsQuestion,
  deps: AnalyticsDeps,
): Promise<{ totals: Totals; previous: object; change: object } | Rejection> {
  const before = previousOf(period, deps.clock());
  const both = scopeWithin(scope, { ...period, start_ms: before.start_ms }, deps);
  // The slot between the two periods is ignored.
  const slots = [...new Set([before.start_ms, before.end_ms, period.start_ms])];
  const rows = await queries.together<FigureRow>(series(both, slots, { withBots: true }));
  if (rows instanceof Rejection) return rows;
  const groups = bySlot(rows);
  const of = (ms: number) => totalsOf(groups.get(slotOf(ms)) ?? [], conversion?.convert);
  const [previous, totals] = [of(before.start_ms), of(period.start_ms)];
  return {
    totals,
    previous: { start: isoTime(before.start_ms), end: isoTime(before.end_ms), ...previous },
    change: changeOf(totals, before.start_ms < oldestShownMs(deps) ? totalsOf([], undefined) : previous),
  };
}

export const overview = route({
  method: 'GET',
  path: '/analytics/overview',
  operationId: 'getOverview',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'Get totals and their change',
  description:
    'Totals of the period and of the previous period, and the change between them. If the period has not ended, the previous ' +
    'period is counted up to the same point (to date), with a precision of 15 minutes. The change is null if the previous period is not ' +
    'covered completely by the records that are still kept.',
  query: querySchema({ ...commonQuery, currency: currencyQuery }),
  answers: {
    200: {
      description: 'The statistics. They include every record accepted up to `as_of`.',
      schema: Type.Object(
        {
          start: Type.String(),
          end: Type.String(),
          timezone: Type.String(),
          totals: totalsSchema,
          previous: previousSchema,
          change: changeSchema,
          conversion: Type.Optional(conversionSchema),
          as_of: Type.String(),
        },
        { title: 'Overview' },
      ),
      example: {
        start: '2026-10-23T00:00:00.000Z',
        end: '2026-11-22T00:00:00.000Z',
        timezone: 'UTC',
        ...exampleComparison,
        as_of: '2026-11-21T12:00:00.000Z',
      },
    },
  },
  async handle(deps, { caller, query }) {
    const asked = await readQuestion(deps, caller, query);
    if (asked instanceof Rejection) return asked;
    const { period, queries } = asked;
    const asOf = await queries.asOf();
    const compared = await comparison(asked, deps);
    if (compared instanceof Rejection) return compared;
    return {
      status: 200,
      body: {
        start: isoTime(period.start_ms),
        end: isoTime(period.end_ms),
        timezone: period.zone.name,
        ...compared,
        ...conversionField(asked.conversion),
        as_of: isoTime(asOf),
      },
    };
  },
});
