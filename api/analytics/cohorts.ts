/** Shared parts of retention and revenue by age: cohorts of installs, groups, and ages in days. */
import { type TSchema, Type } from 'typebox';
import type { CohortRow, Cohorts, SizeRow } from '#clickhouse/queries/cohorts.ts';
import { type FilterColumn, filterColumns } from '#clickhouse/queries/scope.ts';
import { isoTime } from '#common/clock.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { bucketStarts, bucketsMax } from './buckets.ts';
import { type CohortSource, fromRecords, largestGroupsOf, type SourceOf, sizesOf } from './cohort-sources.ts';
import type { AnalyticsDeps } from './deps.ts';
import { withTags } from './link-tags.ts';
import { commonQuery, oneOf } from './parameters.ts';
import type { AnalyticsQuestion } from './question.ts';

const cohortSpans = ['day', 'week', 'month', 'all'] as const;
type CohortSpan = (typeof cohortSpans)[number];
const daysMax = 32;
const dayMax = 730;
const groupsMax = 10;
/** Marks the row of all other groups, as in the ClickHouse queries; no stored text contains it. */
const rest = '\0';

const { include_bots: _, ...questionOfInstalls } = commonQuery;

export function cohortQuery(daysDefault: string) {
  return {
    ...questionOfInstalls,
    cohort: Type.Optional(
      oneOf(
        cohortSpans,
        'Length of a cohort, in the given time zone; default week. all: the whole range is one cohort.',
      ),
    ),
    group_by: Type.Optional(oneOf(filterColumns, 'Splits each cohort by this field of the installs.')),
    days: Type.Optional(
      Type.String({
        maxLength: 200,
        description: `Ages in days, separated by commas: up to ${daysMax}, each from 0 to ${dayMax}. Day 0 is the first 24 hours after the install. Default: ${daysDefault}.`,
      }),
    ),
  };
}

export interface CohortQuery {
  readonly cohort?: CohortSpan;
  readonly group_by?: FilterColumn;
  readonly days?: string;
}

/** Fields of one cohort, except its figures by day. */
export const cohortFields: Record<string, TSchema> = {
  start: Type.String({ description: 'Start of the cohort. The first cohort contains only installs in the range.' }),
  group: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description:
        'With group_by: the value of the field, null for installs without one, `other` for all remaining ones.',
    }),
  ),
  is_rest: Type.Optional(Type.Boolean({ description: 'True for `other`.' })),
  installs: Type.Integer({ description: 'All installs of the cohort.' }),
};

export const dayFields = {
  day: Type.Integer(),
  installs: Type.Integer({ description: 'Installs for which this day has passed, up to `as_of`.' }),
};

export interface CohortPlan {
  readonly asked: AnalyticsQuestion;
  readonly cohorts: Cohorts;
  readonly span: CohortSpan;
  readonly sizes: readonly SizeRow[];
  readonly asOfMs: number;
  readonly sources: readonly CohortSource[];
}

/** Reads the parameters, and counts the installs. */
export async function planCohorts(
  deps: AnalyticsDeps,
  question: AnalyticsQuestion,
  query: CohortQuery,
  { daysDefault, sourcesOf = fromRecords }: { readonly daysDefault: string; readonly sourcesOf?: SourceOf },
): Promise<CohortPlan | Rejection> {
  const days = daysOf(query.days ?? daysDefault);
  if (days instanceof Rejection) return days;
  const { cohort: span = 'week', group_by } = query;
  const { period } = question;
  const slots_ms = span === 'all' ? [period.start_ms] : bucketStarts(period.start_ms, period.end_ms, span, period.zone);
  if (!slots_ms)
    return invalid('cohort', `${span} gives more than ${bucketsMax} cohorts: use longer cohorts or a shorter range`);
  const asked = group_by === 'tag' ? await withTags(question) : question;
  if (asked instanceof Rejection) return asked;
  const found = await sourcesOf(asked, { slots_ms, ...(group_by ? { groupBy: group_by } : {}) });
  if (found instanceof Rejection) return found;
  const { asOfMs, sources } = found;
  const top = group_by ? await topGroups(asked, group_by, sources) : undefined;
  if (top instanceof Rejection) return top;
  const observed_ms = Math.min(found.observedMs, deps.clock());
  const cohorts = { slots_ms, days, observed_ms, ...(group_by ? { groupBy: group_by } : {}), ...(top ? { top } : {}) };
  const sizes = await sizesOf(asked, cohorts, sources);
  return sizes instanceof Rejection ? sizes : { asked, cohorts, span, sizes, asOfMs, sources };
}

/** The groups to show; undefined if there are few enough to show all. */
export async function topGroups(
  { scope, queries }: AnalyticsQuestion,
  by: FilterColumn,
  sources: readonly CohortSource[] = [{ kind: 'records', scope }],
): Promise<readonly string[] | undefined | Rejection> {
  const found = await largestGroupsOf(queries, by, sources, groupsMax + 1);
  if (found instanceof Rejection) return found;
  return found.length > groupsMax ? found.slice(0, groupsMax) : undefined;
}

export function daysOf(text: string): readonly number[] | Rejection {
  const words = text.split(',').map((word) => word.trim());
  if (words.length > daysMax) return invalid('days', `accepts at most ${daysMax} ages`);
  const isDay = (word: string) => /^\d{1,3}$/.test(word) && Number(word) <= dayMax;
  if (!words.every(isDay)) return invalid('days', `must be whole numbers from 0 to ${dayMax}, separated by commas`);
  return [...new Set(words.map(Number))].sort((a, b) => a - b);
}

export function nameOfGroup(value: string): object {
  return value === rest ? { group: 'other', is_rest: true } : { group: value === '' ? null : value };
}

/** All cohorts in order, including those without installs; within each, the groups with the most installs first. */
export function cohortsOf<Row extends CohortRow>(
  { cohorts, sizes }: CohortPlan,
  rows: readonly Row[],
  figuresOf: (size: SizeRow, rows: readonly Row[]) => object,
): object[] {
  const byCohort = new Map<string, Row[]>();
  for (const row of rows) {
    const key = `${row.slot}\0${row.grp}`;
    byCohort.set(key, [...(byCohort.get(key) ?? []), row]);
  }
  return cohorts.slots_ms.flatMap((ms) => {
    const slot = Math.max(0, ms);
    const found = sizes.filter((size) => size.slot === slot);
    const none = { slot, grp: '', installs: 0, eligible: cohorts.days.map(() => 0) };
    const groups = found.length === 0 && cohorts.groupBy === undefined ? [none] : found.sort(byInstalls);
    return groups.map((size) => ({
      start: isoTime(ms),
      ...(cohorts.groupBy === undefined ? {} : nameOfGroup(size.grp)),
      installs: size.installs,
      ...figuresOf(size, byCohort.get(`${slot}\0${size.grp}`) ?? []),
    }));
  });
}

function byInstalls(a: SizeRow, b: SizeRow): number {
  if ((a.grp === rest) !== (b.grp === rest)) return a.grp === rest ? 1 : -1;
  return b.installs - a.installs || (a.grp < b.grp ? -1 : 1);
}
