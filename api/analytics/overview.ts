import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import { type FigureRow, series, slotOf } from '#clickhouse/queries/series.ts';
import { isoTime } from '#common/clock.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import type { AnalyticsDeps } from './deps.ts';
import { bySlot, changeOf, exampleMetrics, totalsFields, totalsOf, totalsSchema } from './metrics.ts';
import { commonQuery, querySchema } from './parameters.ts';
import { previousOf } from './period.ts';
import { readQuestion, scopeWithin } from './question.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
const ratio = Type.Union([Type.Number(), Type.Null()]);
const { revenue: _revenue, ...numbers } = totalsFields;
const exampleTotals = { ...exampleMetrics, bot_clicks: 40, organic_installs: 12 };

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
    'period is counted to the same point in time (to date), to the quarter of an hour.',
  query: querySchema(commonQuery),
  answers: {
    200: {
      description: 'The statistics. They include every record accepted up to `as_of`.',
      schema: Type.Object(
        {
          start: Type.String(),
          end: Type.String(),
          timezone: Type.String(),
          totals: totalsSchema,
          previous: Type.Object(
            { start: Type.String(), end: Type.String(), ...totalsFields },
            { title: 'PreviousMetrics' },
          ),
          change: Type.Object({
            ...Object.fromEntries(Object.keys(numbers).map((name) => [name, ratio])),
            revenue: Type.Array(Type.Object({ currency: Type.String(), ratio })),
          }),
          as_of: Type.String(),
        },
        { title: 'Overview' },
      ),
      example: {
        start: '2026-10-23T00:00:00.000Z',
        end: '2026-11-22T00:00:00.000Z',
        timezone: 'UTC',
        totals: exampleTotals,
        previous: {
          start: '2026-09-23T00:00:00.000Z',
          end: '2026-10-23T00:00:00.000Z',
          ...exampleTotals,
          clicks: 1000,
        },
        change: {
          clicks: 0.2,
          unique_clicks: 0,
          installs: 0,
          reinstalls: 0,
          opens: 0,
          reengagements: 0,
          events: 0,
          conversions: 0,
          conversion_rate: 0,
          bot_clicks: 0,
          organic_installs: 0,
          revenue: [{ currency: 'EUR', ratio: 0 }],
        },
        as_of: '2026-11-21T12:00:00.000Z',
      },
    },
  },
  async handle(deps, { caller, query }) {
    const asked = await readQuestion(deps, caller, query);
    if (asked instanceof Rejection) return asked;
    const { period, queries } = asked;
    const before = previousOf(period, deps.clock());
    const both = scopeWithin(asked.scope, { ...period, start_ms: before.start_ms }, deps);
    // The slot between the two periods is not used.
    const slots = [...new Set([before.start_ms, before.end_ms, period.start_ms])];
    const asOf = await queries.asOf();
    const rows = await queries.together<FigureRow>(series(both, slots, { withBots: true }));
    if (rows instanceof Rejection) return rows;
    const groups = bySlot(rows);
    const of = (ms: number) => totalsOf(groups.get(slotOf(ms)) ?? []);
    const [previous, totals] = [of(before.start_ms), of(period.start_ms)];
    return {
      status: 200,
      body: {
        start: isoTime(period.start_ms),
        end: isoTime(period.end_ms),
        timezone: period.zone.name,
        totals,
        previous: { start: isoTime(before.start_ms), end: isoTime(before.end_ms), ...previous },
        change: changeOf(totals, previous),
        as_of: isoTime(asOf),
      },
    };
  },
});
