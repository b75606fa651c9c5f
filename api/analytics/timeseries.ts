/** GET /analytics/timeseries: the statistics by time bucket, optionally split by a field. */
import { Type } from 'typebox';
import type { UserCaller } from '#api/route.ts';
import { type FilterColumn, filterColumns } from '#clickhouse/queries/scope.ts';
import { type FigureRow, series, slotOf, topValues } from '#clickhouse/queries/series.ts';
import { isoTime } from '#common/clock.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { bucketStarts, bucketsMax, type Granularity, granularities, granularityFor } from './buckets.ts';
import type { AnalyticsDeps } from './deps.ts';
import { conversionField, conversionSchema, currencyQuery } from './exchange-rates.ts';
import { withTags } from './link-tags.ts';
import { bySlot, exampleMetrics, type Metrics, metricsFields, metricsOf, type ShowAmounts } from './metrics.ts';
import { absentText, commonQuery, oneOf, querySchema } from './parameters.ts';
import type { Period } from './period.ts';
import { type AnalyticsQuestion, readQuestion } from './question.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
/** Maximum groups of a split series; all others are combined as `other`. */
const groupsMax = 10;
/** With at most this many buckets, all values of a column are read, and the largest are selected afterwards. */
const fewBuckets = 100;

export interface Buckets {
  readonly granularity: Granularity;
  readonly starts: readonly number[];
}

export function bucketsOf(period: Period, wanted: Granularity | undefined): Buckets | Rejection {
  const granularity = wanted ?? granularityFor(period.start_ms, period.end_ms);
  const starts = bucketStarts(period.start_ms, period.end_ms, granularity, period.zone);
  if (starts) return { granularity, starts };
  const hint = granularity === 'month' ? 'use a shorter range' : 'use a coarser one or a shorter range';
  return invalid('granularity', `${granularity} gives more than ${bucketsMax} buckets for this range: ${hint}`);
}

/** One element for each bucket, in order, including empty ones. */
export function seriesOf(
  starts: readonly number[],
  rows: readonly FigureRow[],
  show?: ShowAmounts,
): ({ start: string } & Metrics)[] {
  const groups = bySlot(rows);
  return starts.map((start) => ({ start: isoTime(start), ...metricsOf(groups.get(slotOf(start)) ?? [], show) }));
}

const group = Type.Optional(Type.Union([Type.String(), Type.Null()]));
const groupFields = Object.fromEntries(filterColumns.map((name) => [name, group])) as Record<
  FilterColumn,
  typeof group
>;
const groupedBucket = Type.Object(
  {
    start: Type.String(),
    ...groupFields,
    is_rest: Type.Optional(Type.Boolean({ description: 'True for `other`, which sums all remaining groups.' })),
    ...metricsFields,
  },
  { title: 'MetricsBucket' },
);

export const timeseries = route({
  method: 'GET',
  path: '/analytics/timeseries',
  operationId: 'getTimeseries',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'Get statistics over time',
  description: `One element per bucket, including empty ones. The first and the last bucket count only records in the range. With group_by, one element per bucket and group: the ${groupsMax} largest groups and \`other\`, which has \`is_rest: true\` (a group whose value is "other" does not). A null group means that the value is absent; ${absentText} A link with several tags counts in each tag’s group.`,
  query: querySchema({
    ...commonQuery,
    granularity: Type.Optional(oneOf(granularities, 'Default: chosen to fit the range.')),
    currency: currencyQuery,
    group_by: Type.Optional(oneOf(filterColumns, 'Splits each bucket by this field.')),
  }),
  answers: {
    200: {
      description: 'The buckets in chronological order.',
      schema: Type.Object(
        {
          start: Type.String(),
          end: Type.String(),
          timezone: Type.String(),
          granularity: Type.String(),
          data: Type.Array(groupedBucket),
          conversion: Type.Optional(conversionSchema),
          as_of: Type.String(),
        },
        { title: 'Timeseries' },
      ),
      example: {
        start: '2026-11-20T00:00:00.000Z',
        end: '2026-11-21T00:00:00.000Z',
        timezone: 'UTC',
        granularity: 'day',
        data: [{ start: '2026-11-20T00:00:00.000Z', ...exampleMetrics }],
        as_of: '2026-11-21T12:00:00.000Z',
      },
    },
  },
  async handle(deps, { caller, query }) {
    const asked = await readQuestion(deps, caller, query);
    if (asked instanceof Rejection) return asked;
    const buckets = bucketsOf(asked.period, query.granularity);
    if (buckets instanceof Rejection) return buckets;
    const asOf = await asked.queries.asOf();
    const data = await (query.group_by ? grouped(asked, buckets, query.group_by) : plain(asked, buckets));
    if (data instanceof Rejection) return data;
    return {
      status: 200,
      body: {
        start: isoTime(asked.period.start_ms),
        end: isoTime(asked.period.end_ms),
        timezone: asked.period.zone.name,
        granularity: buckets.granularity,
        data,
        ...conversionField(asked.conversion),
        as_of: isoTime(asOf),
      },
    };
  },
});

export async function plain(
  { scope, queries, conversion }: AnalyticsQuestion,
  { starts }: Buckets,
): Promise<unknown[] | Rejection> {
  const rows = await queries.together<FigureRow>(series(scope, starts));
  return rows instanceof Rejection ? rows : seriesOf(starts, rows, conversion?.convert);
}

async function grouped(
  question: AnalyticsQuestion,
  { starts }: Buckets,
  by: FilterColumn,
): Promise<unknown[] | Rejection> {
  const asked = by === 'tag' ? await withTags(question) : question;
  if (asked instanceof Rejection) return asked;
  const found = await groupsOf(asked, starts, by);
  if (found instanceof Rejection) return found;
  const { rows, top } = found;
  const groups = new Map<string, FigureRow[]>([...top].map((value) => [value, []]));
  for (const row of rows) {
    const key = top.has(row.grp) ? row.grp : rest;
    const group = groups.get(key);
    if (group) group.push(row);
    else groups.set(key, [row]);
  }
  const lines = [...groups].map(([key, its]) => ({
    name: nameOf(by, key),
    buckets: seriesOf(starts, its, question.conversion?.convert),
  }));
  return starts.flatMap((_, at) =>
    lines.flatMap(({ name, buckets }) => {
      const bucket = buckets[at];
      return bucket ? [{ start: bucket.start, ...name, ...withoutStart(bucket) }] : [];
    }),
  );
}

/** Marks the row of all other values, as in the ClickHouse queries; no stored text contains it. */
const rest = '\0';

function nameOf(by: FilterColumn, key: string): object {
  return key === rest ? { [by]: 'other', is_rest: true } : { [by]: key === '' ? null : key };
}

/**
 * A visitor has one platform and one country. So if there are few buckets, the largest groups are selected from all
 * rows, and the visitors of the other groups are added up. Values of other fields share visitors, so ClickHouse must
 * combine the remaining groups.
 */
async function groupsOf(
  { scope, queries }: AnalyticsQuestion,
  starts: readonly number[],
  by: FilterColumn,
): Promise<{ rows: FigureRow[]; top: Set<string> } | Rejection> {
  if ((by === 'platform' || by === 'country') && starts.length <= fewBuckets) {
    const rows = await queries.together<FigureRow>(series(scope, starts, { groupBy: by }));
    return rows instanceof Rejection ? rows : { rows, top: largestOf(rows) };
  }
  const found = await queries.rows<{ value: string }>(topValues(scope, by, groupsMax + 1));
  if (found instanceof Rejection) return found;
  const top = found.slice(0, groupsMax).map((row) => row.value);
  const rows = await queries.together<FigureRow>(
    series(scope, starts, { groupBy: by, ...(found.length > groupsMax ? { top } : {}) }),
  );
  return rows instanceof Rejection ? rows : { rows, top: new Set(top) };
}

function largestOf(rows: readonly FigureRow[]): Set<string> {
  const sums = new Map<string, [number, number, number]>();
  for (const row of rows) {
    const sum = sums.get(row.grp) ?? [0, 0, 0];
    sums.set(row.grp, [sum[0] + (row.f_clicks ?? 0), sum[1] + (row.f_installs ?? 0), sum[2] + (row.f_events ?? 0)]);
  }
  const sorted = [...sums].sort(([a, x], [b, y]) => y[0] - x[0] || y[1] - x[1] || y[2] - x[2] || (a < b ? -1 : 1));
  return new Set(sorted.slice(0, groupsMax).map(([value]) => value));
}

function withoutStart({ start: _start, ...metrics }: { start: string } & Metrics): Metrics {
  return metrics;
}
