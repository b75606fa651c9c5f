/** GET /analytics/ltv: the revenue of installs by their age, with costs and return on ad spend. */
import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import type { RevenueRow, SizeRow } from '#clickhouse/queries/cohorts.ts';
import { isoTime } from '#common/clock.ts';
import { divided } from '#common/decimal.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { costOf, costsOf, returnOn, sizesOfCosts } from './campaign-costs.ts';
import { fromRevenueCellsIfPossible, revenueOf } from './cohort-sources.ts';
import { cohortFields, cohortQuery, cohortsOf, dayFields, planCohorts } from './cohorts.ts';
import type { AnalyticsDeps } from './deps.ts';
import { conversionField, conversionSchema, currencyQuery } from './exchange-rates.ts';
import { type Amount, amountSchema, byCurrency, type ShowAmounts } from './metrics.ts';
import { querySchema } from './parameters.ts';
import { readQuestion } from './question.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
const daysDefault = '0,1,3,7,14,30,60,90';

const ltvDay = Type.Object(
  {
    ...dayFields,
    revenue: Type.Array(amountSchema, {
      description: 'Revenue of these installs, from the install to the end of this day.',
    }),
    per_install: Type.Array(amountSchema, { description: 'revenue / installs, to nine decimal places.' }),
    roas: Type.Union(
      [Type.Array(Type.Object({ currency: Type.String(), ratio: Type.Number() }, { title: 'Roas' })), Type.Null()],
      {
        description:
          'revenue / cost, for each currency of the cost; null while an install of the cohort has not completed the day, and without costs.',
      },
    ),
  },
  { title: 'LtvDay' },
);

const costSchema = Type.Union([Type.Array(amountSchema), Type.Null()], {
  description:
    'Costs of the campaigns on the days of the cohort; null if costs cannot be split like the installs: with a group other than campaign, a filter other than campaign and organization, or a server key limited to some apps.',
});

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
    'Groups the installs of the range into cohorts, and sums their revenue up to each age. An install counts for a day once that day has passed for it. Filters and groups apply to the installs.',
  query: querySchema({ ...cohortQuery(daysDefault), currency: currencyQuery }),
  answers: {
    200: {
      description: 'The cohorts in chronological order.',
      schema: Type.Object(
        {
          start: Type.String(),
          end: Type.String(),
          timezone: Type.String(),
          cohort: Type.String(),
          data: Type.Array(
            Type.Object({ ...cohortFields, cost: costSchema, days: Type.Array(ltvDay) }, { title: 'LtvCohort' }),
          ),
          conversion: Type.Optional(conversionSchema),
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
            cost: [{ currency: 'EUR', amount: '300' }],
            days: [
              {
                day: 30,
                installs: 84,
                revenue: [{ currency: 'EUR', amount: '420' }],
                per_install: [{ currency: 'EUR', amount: '5' }],
                roas: [{ currency: 'EUR', ratio: 1.4 }],
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
    const plan = await planCohorts(deps, question, query, { daysDefault, sourcesOf: fromRevenueCellsIfPossible });
    if (plan instanceof Rejection) return plan;
    const { asked, cohorts } = plan;
    const rows = await revenueOf(asked, cohorts, plan.sources);
    if (rows instanceof Rejection) return rows;
    const costs = await costsOf(asked, cohorts);
    const show = asked.conversion?.convert ?? ((amounts: readonly Amount[]) => amounts);
    const figuresOf = (size: SizeRow, found: readonly RevenueRow[]) => {
      const cost = costOf(costs, size);
      const shownCost = cost && show(cost);
      const days = cohorts.days.map((day, at) => ageOf(size, found, { day, at }, { cost: shownCost, show }));
      return { cost: shownCost, days };
    };
    const sizes = [...plan.sizes, ...sizesOfCosts(costs, plan.sizes, cohorts.days)];
    return {
      status: 200,
      body: {
        start: isoTime(asked.period.start_ms),
        end: isoTime(asked.period.end_ms),
        timezone: asked.period.zone.name,
        cohort: plan.span,
        data: cohortsOf({ ...plan, sizes }, rows, figuresOf),
        ...conversionField(asked.conversion),
        as_of: isoTime(plan.asOfMs),
      },
    };
  },
});

function ageOf(
  { installs: all, eligible }: SizeRow,
  found: readonly RevenueRow[],
  { day, at }: { readonly day: number; readonly at: number },
  { cost, show }: { readonly cost: readonly Amount[] | null; readonly show: ShowAmounts },
): object {
  const installs = eligible[at] ?? 0;
  const amounts = found
    .map((row) => ({ currency: row.currency, amount: row.revenue[at] ?? '0' }))
    .filter(({ amount }) => amount !== '0')
    .sort(byCurrency);
  const revenue = show(amounts);
  const per_install =
    installs === 0 ? [] : revenue.map(({ currency, amount }) => ({ currency, amount: divided(amount, installs) }));
  const roas = cost !== null && cost.length > 0 && installs === all ? returnOn(cost, revenue) : null;
  return { day, installs, revenue, per_install, roas };
}
