/** GET /analytics/retention: how many installs of each cohort came back at each age. */
import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import type { RetainedRow, SizeRow } from '#clickhouse/queries/cohorts.ts';
import { isoTime } from '#common/clock.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { fromCellsIfPossible, fromRecords, retainedOf } from './cohort-sources.ts';
import { cohortFields, cohortQuery, cohortsOf, dayFields, planCohorts } from './cohorts.ts';
import type { AnalyticsDeps } from './deps.ts';
import { readNames } from './names.ts';
import { oneOf, querySchema } from './parameters.ts';
import { readQuestion } from './question.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
const modes = ['on_day', 'unbounded'] as const;
const daysDefault = '1,3,7,14,30';

const retentionDay = Type.Object(
  {
    ...dayFields,
    retained: Type.Integer({ description: 'Installs among them that came back.' }),
    rate: Type.Union([Type.Number(), Type.Null()], { description: 'retained / installs; null without installs.' }),
  },
  { title: 'RetentionDay' },
);

export const retention = route({
  method: 'GET',
  path: '/analytics/retention',
  operationId: 'getRetention',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'Get the retention of installs',
  description:
    'Groups the installs of the range into cohorts, and counts how many have an event at each age. An install counts for a day once that day has passed for it, so a recent cohort has fewer installs in its later days. Filters and groups apply to the installs.',
  query: querySchema({
    ...cohortQuery(daysDefault),
    mode: Type.Optional(
      oneOf(modes, 'on_day (default): an event on that day. unbounded: an event on that day or on any later one.'),
    ),
    return_event: Type.Optional(
      Type.String({
        maxLength: 1_000,
        description:
          'Names of the events that count, separated by commas; a comma or backslash in a name is escaped with a backslash. Default: any event.',
      }),
    ),
  }),
  answers: {
    200: {
      description: 'The cohorts in chronological order.',
      schema: Type.Object(
        {
          start: Type.String(),
          end: Type.String(),
          timezone: Type.String(),
          cohort: Type.String(),
          mode: Type.String(),
          data: Type.Array(
            Type.Object({ ...cohortFields, days: Type.Array(retentionDay) }, { title: 'RetentionCohort' }),
          ),
          as_of: Type.String(),
        },
        { title: 'Retention' },
      ),
      example: {
        start: '2026-10-05T00:00:00.000Z',
        end: '2026-10-12T00:00:00.000Z',
        timezone: 'UTC',
        cohort: 'week',
        mode: 'on_day',
        data: [
          {
            start: '2026-10-05T00:00:00.000Z',
            installs: 84,
            days: [
              { day: 1, installs: 84, retained: 42, rate: 0.5 },
              { day: 30, installs: 84, retained: 21, rate: 0.25 },
            ],
          },
        ],
        as_of: '2026-11-21T12:00:00.000Z',
      },
    },
  },
  async handle(deps, { caller, query }) {
    const { mode = 'on_day' } = query;
    const events = readNames('return_event', query.return_event ?? '');
    if (events instanceof Rejection) return events;
    const question = await readQuestion(deps, caller, query);
    if (question instanceof Rejection) return question;
    const returns = { isUnbounded: mode === 'unbounded', events };
    const sourcesOf = returns.isUnbounded || events.length > 0 ? fromRecords : fromCellsIfPossible;
    const plan = await planCohorts(deps, question, query, { daysDefault, sourcesOf });
    if (plan instanceof Rejection) return plan;
    const { cohorts } = plan;
    const rows = await retainedOf(plan, returns);
    if (rows instanceof Rejection) return rows;
    const figuresOf = ({ eligible }: SizeRow, [found]: readonly RetainedRow[]) => ({
      days: cohorts.days.map((day, at) => {
        const [installs, back] = [eligible[at] ?? 0, found?.retained[at] ?? 0];
        return { day, installs, retained: back, rate: installs === 0 ? null : back / installs };
      }),
    });
    return {
      status: 200,
      body: {
        start: isoTime(plan.asked.period.start_ms),
        end: isoTime(plan.asked.period.end_ms),
        timezone: plan.asked.period.zone.name,
        cohort: plan.span,
        mode,
        data: cohortsOf(plan, rows, figuresOf),
        as_of: isoTime(plan.asOfMs),
      },
    };
  },
});
