/** GET /analytics/funnel: how many clicks or installs reach the install and the given events, in order. */
import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import { figureParts } from '#clickhouse/queries/figures.ts';
import { type FunnelRow, funnelSteps } from '#clickhouse/queries/funnel.ts';
import { type FilterColumn, filterColumns } from '#clickhouse/queries/scope.ts';
import { type FigureRow, topValues } from '#clickhouse/queries/series.ts';
import { isoTime } from '#common/clock.ts';
import { HOUR_MS } from '#common/durations.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { nameOfGroup, topGroups } from './cohorts.ts';
import type { AnalyticsDeps } from './deps.ts';
import { withTags } from './link-tags.ts';
import { readNames } from './names.ts';
import { commonQuery, oneOf, querySchema } from './parameters.ts';
import { type AnalyticsQuestion, readQuestion } from './question.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
const entrances = ['click', 'install'] as const;
type Entrance = (typeof entrances)[number];
const eventsMax = 8;
const hoursMax = 24 * 90;
const hoursDefault = 24 * 7;
const groupsMax = 10;

const funnelStep = Type.Object(
  {
    step: Type.String({ description: '`click`, `install`, or the name of an event.' }),
    count: Type.Integer(),
    rate: Type.Number({ description: 'Share of the first step; 0 if the first step is 0.' }),
    rate_of_previous: Type.Number({ description: 'Share of the previous step; 0 if the previous step is 0.' }),
  },
  { title: 'FunnelStep' },
);

export const funnel = route({
  method: 'GET',
  path: '/analytics/funnel',
  operationId: 'getFunnel',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'Get a funnel',
  description:
    'Counts how many clicks (or installs) of the range reach each step: the install, and then the given events in order. A step is reached by the first matching record after the previous step, if it falls within the window after the first step. The first step equals the clicks or installs of the overview. Filters and groups apply to the first step; later steps may fall outside the range.',
  query: querySchema({
    ...commonQuery,
    from: Type.Optional(oneOf(entrances, 'The first step; default click.')),
    events: Type.Optional(
      Type.String({
        maxLength: 1_000,
        description: `Names of up to ${eventsMax} events in order, separated by commas; a comma or backslash in a name is escaped with a backslash.`,
      }),
    ),
    window_hours: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: hoursMax,
        description: `Hours from the first step within which all others must follow; default ${hoursDefault}.`,
      }),
    ),
    group_by: Type.Optional(oneOf(filterColumns, 'Splits the funnel by this field of the first step.')),
  }),
  answers: {
    200: {
      description: 'The steps, in total and for each group.',
      schema: Type.Object(
        {
          start: Type.String(),
          end: Type.String(),
          timezone: Type.String(),
          window_hours: Type.Integer(),
          steps: Type.Array(funnelStep),
          groups: Type.Array(
            Type.Object(
              {
                group: Type.Union([Type.String(), Type.Null()]),
                is_rest: Type.Optional(
                  Type.Boolean({ description: 'True for `other`, which sums all remaining groups.' }),
                ),
                steps: Type.Array(funnelStep),
              },
              { title: 'FunnelGroup' },
            ),
            { description: 'With group_by: the ten largest groups and `other`. null: records without a value.' },
          ),
          as_of: Type.String(),
        },
        { title: 'Funnel' },
      ),
      example: {
        start: '2026-10-23T00:00:00.000Z',
        end: '2026-11-22T00:00:00.000Z',
        timezone: 'UTC',
        window_hours: hoursDefault,
        steps: [
          { step: 'click', count: 1200, rate: 1, rate_of_previous: 1 },
          { step: 'install', count: 60, rate: 0.05, rate_of_previous: 0.05 },
          { step: 'purchase', count: 12, rate: 0.01, rate_of_previous: 0.2 },
        ],
        groups: [],
        as_of: '2026-11-21T12:00:00.000Z',
      },
    },
  },
  async handle(deps, { caller, query }) {
    const { from = 'click', window_hours = hoursDefault, group_by } = query;
    const events = readNames('events', query.events ?? '', eventsMax);
    if (events instanceof Rejection) return events;
    const question = await readQuestion(deps, caller, query);
    if (question instanceof Rejection) return question;
    const asked = group_by === 'tag' ? await withTags(question) : question;
    if (asked instanceof Rejection) return asked;
    const asOf = await asked.queries.asOf();
    const observed_ms = Math.min(asOf, deps.clock());
    const plan = { from, events, window_ms: window_hours * HOUR_MS, observed_ms };
    const names = from === 'click' ? ['click', 'install', ...events] : ['install', ...events];
    const whole = await countsOf(asked, plan, undefined);
    if (whole instanceof Rejection) return whole;
    const groups = group_by ? await countsOf(asked, plan, group_by) : new Map<string, readonly number[]>();
    if (groups instanceof Rejection) return groups;
    return {
      status: 200,
      body: {
        start: isoTime(asked.period.start_ms),
        end: isoTime(asked.period.end_ms),
        timezone: asked.period.zone.name,
        window_hours,
        steps: stepsOf(names, whole.get('') ?? []),
        groups: [...groups].map(([value, counts]) => ({ ...nameOfGroup(value), steps: stepsOf(names, counts) })),
        as_of: isoTime(asOf),
      },
    };
  },
});

interface Plan {
  readonly from: Entrance;
  readonly events: readonly string[];
  readonly window_ms: number;
  readonly observed_ms: number;
}

/** The counts of all steps by group, largest group first; the key is '' without groups. */
async function countsOf(
  asked: AnalyticsQuestion,
  plan: Plan,
  groupBy: FilterColumn | undefined,
): Promise<Map<string, readonly number[]> | Rejection> {
  const top = groupBy ? await largest(asked, plan.from, groupBy) : undefined;
  if (top instanceof Rejection) return top;
  const grouped = { ...(groupBy ? { groupBy } : {}), ...(top ? { top } : {}) };
  const [first, later] = await Promise.all([
    entrancesOf(asked, plan.from, groupBy, top),
    plan.from === 'install' && plan.events.length === 0
      ? []
      : asked.queries.rows<FunnelRow>(funnelSteps(asked.scope, { ...plan, ...grouped })),
  ]);
  if (first instanceof Rejection) return first;
  if (later instanceof Rejection) return later;
  const reached = new Map(later.map((row) => [row.grp, row.reached]));
  const none = [...(plan.from === 'click' ? [0] : []), ...plan.events.map(() => 0)];
  const isRest = (value: string) => Number(value === '\0');
  return new Map(
    [...first]
      .filter(([, count]) => count > 0 || groupBy === undefined)
      .sort(([a, x], [b, y]) => isRest(a) - isRest(b) || y - x || (a < b ? -1 : 1))
      .map(([value, count]) => [value, [count, ...(reached.get(value) ?? none)]]),
  );
}

async function largest(
  asked: AnalyticsQuestion,
  from: Entrance,
  by: FilterColumn,
): Promise<readonly string[] | undefined | Rejection> {
  if (from === 'install') return topGroups(asked, by);
  const found = await asked.queries.rows<{ value: string }>(topValues(asked.scope, by, groupsMax + 1));
  if (found instanceof Rejection) return found;
  return found.length > groupsMax ? found.slice(0, groupsMax).map(({ value }) => value) : undefined;
}

/** Counts of the first step, as in the overview. */
async function entrancesOf(
  { scope, queries }: AnalyticsQuestion,
  from: Entrance,
  groupBy: FilterColumn | undefined,
  top: readonly string[] | undefined,
): Promise<Map<string, number> | Rejection> {
  const keys = {
    ...(groupBy ? { columns: [groupBy] } : {}),
    ...(top ? { top } : {}),
    withUniques: false,
    withBots: false,
  };
  const parts = figureParts(scope, keys, [from === 'click' ? 'clicks' : 'installs']);
  const named = parts.map(({ sql, params }) => ({ sql: sql.replaceAll(`k_${groupBy}`, 'grp'), params }));
  const rows = await queries.together<FigureRow>(named);
  if (rows instanceof Rejection) return rows;
  return new Map(rows.map((row) => [row.grp ?? '', (from === 'click' ? row.f_clicks : row.f_installs) ?? 0]));
}

function stepsOf(names: readonly string[], counts: readonly number[]): object[] {
  const share = (part: number, whole: number) => (whole === 0 ? 0 : part / whole);
  const [first = 0] = counts;
  return names.map((step, at) => {
    const count = counts[at] ?? 0;
    return {
      step,
      count,
      rate: share(count, first),
      rate_of_previous: share(count, at === 0 ? first : (counts[at - 1] ?? 0)),
    };
  });
}
