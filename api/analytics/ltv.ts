import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import { type RevenueRow, revenueByAge, type SizeRow } from '#clickhouse/queries/cohorts.ts';
import { isoTime } from '#common/clock.ts';
import { divided } from '#common/decimal.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { cohortFields, cohortQuery, cohortsOf, dayFields, planCohorts } from './cohorts.ts';
import type { AnalyticsDeps } from './deps.ts';
import { type Amount, amountSchema, byCurrency } from './metrics.ts';
import { querySchema } from './parameters.ts';
import { readQuestion } from './question.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
const daysDefault = '0,1,3,7,14,30,60,90';

const ltvDay = Type.Object(
  {
    ...dayFields,
    revenue: Type.Array(amountSchema, { description: 'Of these installs, from the install to the end of this day.' }),
    per_install: Type.Array(amountSchema, { description: 'revenue / installs, to nine decimal places.' }),
  },
  { title: 'LtvDay' },
);

export const ltv = route({
  method: 'GET',
  path: '/analytics/ltv',
  operationId: 'getLtv',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'Get revenue by the age of installs',
  description:
    'Installs of the range in cohorts, and their cumulative revenue up to each age. An install counts for a day once it has completed it. Filters and groups are about the installs.',
  query: querySchema(cohortQuery(daysDefault)),
  answers: {
    200: {
      description: 'The cohorts in chronological order.',
      schema: Type.Object(
        {
          start: Type.String(),
          end: Type.String(),
          timezone: Type.String(),
          cohort: Type.String(),
          data: Type.Array(Type.Object({ ...cohortFields, days: Type.Array(ltvDay) }, { title: 'LtvCohort' })),
          as_of: Type.String(),
        },
        { title: 'Ltv' },
      ),
      example: {
        start: '2026-10-05T00:00:00.000Z',
        end: '2026-10-12T00:00:00.000Z',
        timezone: 'UTC',
        cohort: 'week',
        data: [
          {
            start: '2026-10-05T00:00:00.000Z',
            installs: 84,
            days: [
              {
                day: 30,
                installs: 84,
                revenue: [{ currency: 'EUR', amount: '420' }],
                per_install: [{ currency: 'EUR', amount: '5' }],
              },
            ],
          },
        ],
        as_of: '2026-11-21T12:00:00.000Z',
      },
    },
  },
  async handle(deps, { caller, query }) {
    const question = await readQuestion(deps, caller, query);
    if (question instanceof Rejection) return question;
    const plan = await planCohorts(deps, question, query, daysDefault);
    if (plan instanceof Rejection) return plan;
    const { asked, cohorts } = plan;
    const rows = await asked.queries.rows<RevenueRow>(revenueByAge(asked.scope, cohorts));
    if (rows instanceof Rejection) return rows;
    const figuresOf = ({ eligible }: SizeRow, found: readonly RevenueRow[]) => ({
      days: cohorts.days.map((day, at) => {
        const installs = eligible[at] ?? 0;
        const revenue: Amount[] = found
          .map((row) => ({ currency: row.currency, amount: row.revenue[at] ?? '0' }))
          .filter(({ amount }) => amount !== '0')
          .sort(byCurrency);
        const per_install = revenue.map(({ currency, amount }) => ({ currency, amount: divided(amount, installs) }));
        return { day, installs, revenue, per_install: installs === 0 ? [] : per_install };
      }),
    });
    return {
      status: 200,
      body: {
        start: isoTime(asked.period.start_ms),
        end: isoTime(asked.period.end_ms),
        timezone: asked.period.zone.name,
        cohort: plan.span,
        data: cohortsOf(plan, rows, figuresOf),
        as_of: isoTime(plan.asOfMs),
      },
    };
  },
});
