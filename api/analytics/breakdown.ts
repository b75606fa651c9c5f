/** GET /analytics/breakdown: the statistics by the values of one field, one page at a time. */
import { Type } from 'typebox';
import { listSchema, type Page, pageOf, pageQuery } from '#api/listing.ts';
import type { UserCaller } from '#api/route.ts';
import { type RankedBy, rankedBy } from '#clickhouse/queries/ranking.ts';
import { type Filter, type FilterColumn, filterColumns } from '#clickhouse/queries/scope.ts';
import { isoTime } from '#common/clock.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { namedTargets } from '#common/links/rule-id.ts';
import type { AnalyticsDeps } from './deps.ts';
import { conversionField, conversionSchema, currencyQuery } from './exchange-rates.ts';
import { withTags } from './link-tags.ts';
import { exampleMetrics, type Metrics, metricsFields } from './metrics.ts';
import { absentText, commonQuery, oneOf, querySchema } from './parameters.ts';
import { type AnalyticsQuestion, readQuestion } from './question.ts';
import { rankedPage } from './ranked.ts';
import type { VisibleLinks } from './visible.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();

export const breakdownSort = Type.Optional(
  oneOf(
    rankedBy,
    'Sort order, largest first. Default: clicks; installs for match_type and match_certainty, events for event_name. revenue: the amount in the currency that most events use.',
  ),
);

export const breakdownRow = Type.Object(
  {
    value: Type.Union([Type.String(), Type.Null()], { description: 'null: records that have no value.' }),
    label: Type.Union([Type.String(), Type.Null()], {
      description:
        'If the values are apps, the app’s name; if links, the link’s title or short code. If rules, the rule’s current position among the rules of the links in link_id; null if they no longer have the rule.',
    }),
    rule_index: Type.Optional(
      Type.Integer({
        description: 'Of a rule with a label: its position among the rules of the link, as in explanations.',
      }),
    ),
    variant: Type.Optional(Type.Integer({ description: 'The position of its variant.' })),
    ...metricsFields,
  },
  { title: 'BreakdownRow' },
);

export const exampleBreakdownRow = { value: 'ios', label: null, ...exampleMetrics };

interface ValueName {
  readonly label: string | null;
  readonly rule_index?: number;
  readonly variant?: number;
}

export interface BreakdownPage {
  readonly rows: readonly ({ readonly value: string | null } & ValueName & Metrics)[];
  /** Number of values on all pages. */
  readonly total: number;
}

export const breakdown = route({
  method: 'GET',
  path: '/analytics/breakdown',
  operationId: 'getBreakdown',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'Get statistics by the values of a field',
  description: `All values with at least one click, install, opening or event in the range, and a row for records without a value; ${absentText} The rows therefore add up to the overview, except for unique_clicks and for tags: a link counts for each of its tags.`,
  query: querySchema({
    ...commonQuery,
    ...pageQuery,
    by: oneOf(filterColumns, 'The field.'),
    sort_by: breakdownSort,
    currency: currencyQuery,
  }),
  answers: {
    200: {
      description: 'One page.',
      schema: Type.Object(
        {
          by: Type.String(),
          start: Type.String(),
          end: Type.String(),
          timezone: Type.String(),
          ...listSchema(breakdownRow).properties,
          conversion: Type.Optional(conversionSchema),
          as_of: Type.String(),
        },
        { title: 'Breakdown' },
      ),
      example: {
        by: 'platform',
        start: '2026-10-23T00:00:00.000Z',
        end: '2026-11-22T00:00:00.000Z',
        timezone: 'UTC',
        data: [exampleBreakdownRow],
        pagination: { total: 1, limit: 50, offset: 0, has_more: false },
        as_of: '2026-11-21T12:00:00.000Z',
      },
    },
  },
  async handle(deps, { caller, query }) {
    const asked = await readQuestion(deps, caller, query);
    if (asked instanceof Rejection) return asked;
    const { period } = asked;
    const page = pageOf(query);
    const asOf = await asked.queries.asOf();
    const found = await breakdownPage(asked, query.by, query.sort_by, page);
    if (found instanceof Rejection) return found;
    const { rows, total } = found;
    return {
      status: 200,
      body: {
        by: query.by,
        start: isoTime(period.start_ms),
        end: isoTime(period.end_ms),
        timezone: period.zone.name,
        data: rows,
        pagination: { total, limit: page.limit, offset: page.offset, has_more: page.offset + rows.length < total },
        ...conversionField(asked.conversion),
        as_of: isoTime(asOf),
      },
    };
  },
});

export async function breakdownPage(
  question: AnalyticsQuestion,
  by: FilterColumn,
  sortBy: RankedBy | undefined,
  page: Page,
): Promise<BreakdownPage | Rejection> {
  const asked = by === 'tag' ? await withTags(question) : question;
  if (asked instanceof Rejection) return asked;
  const found = await rankedPage(asked, by, sortBy ?? usualSort(by), page, (rows) =>
    namesOf(
      by,
      rows.map(({ id }) => id),
      asked,
    ),
  );
  if (found instanceof Rejection) return found;
  const rows = found.rows.map(({ id, metrics }) => ({
    value: id === '' ? null : id,
    ...(found.beside.get(id) ?? { label: null }),
    ...metrics,
  }));
  return { rows, total: found.total };
}

function usualSort(by: FilterColumn): RankedBy {
  if (by === 'event_name') return 'events';
  return by === 'match_type' || by === 'match_certainty' ? 'installs' : 'clicks';
}

async function namesOf(
  by: FilterColumn,
  ids: readonly string[],
  { scope, visible }: AnalyticsQuestion,
): Promise<ReadonlyMap<string, ValueName>> {
  if (by === 'app_id') return labelled(await visible.appNames(ids));
  if (by === 'rule') return ruleNames(visible, scope.filters.link_id);
  if (by !== 'link_id') return new Map();
  const links = await visible.links(ids);
  return new Map([...links].map(([id, { title, short_code }]) => [id, { label: title ?? short_code }]));
}

const labelled = (names: ReadonlyMap<string, string>) =>
  new Map([...names].map(([id, label]) => [id, { label }] as const));

/** Names of variants, as in the dashboard. */
const letters = 'ABCDEFGHIJ';

/** The current positions of rules, by rule id. */
async function ruleNames(visible: VisibleLinks, links: Filter | undefined): Promise<ReadonlyMap<string, ValueName>> {
  if (links === undefined || links.isExclusion) return new Map();
  const found = await visible.rules(links.values);
  return new Map(
    found.flatMap(({ id: linkId, short_code, rules }) =>
      namedTargets(linkId, rules).map(({ id, index, variant }) => {
        const place = `Rule ${index + 1}${variant === null ? '' : `, variant ${letters[variant]}`}`;
        const label = links.values.length === 1 ? place : `${short_code}: ${place}`;
        return [id, { label, rule_index: index, ...(variant === null ? {} : { variant }) }] as const;
      }),
    ),
  );
}
