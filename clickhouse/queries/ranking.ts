/** Queries links or campaigns sorted by a figure, one page at a time, each with its figures. */
import { figureParts, figures, keysAlone } from './figures.ts';
import type { FilterColumn, Filters, Question, Scope } from './scope.ts';

/** The campaigns of links that have one, or the values of any field, with a row for records that have none. */
export type RankedColumn = 'named_campaign' | FilterColumn;

export const rankedBy = [
  'clicks',
  'unique_clicks',
  'installs',
  'attributed_installs',
  'reinstalls',
  'opens',
  'reengagements',
  'events',
  'conversions',
  'conversion_rate',
  'event_conversion_rate',
  'revenue',
] as const;
export type RankedBy = (typeof rankedBy)[number];

export interface RankedRow {
  readonly id: string;
  readonly clicks: number;
  readonly unique_clicks: number;
  readonly installs: number;
  readonly organic_installs: number;
  readonly reinstalls: number;
  readonly opens: number;
  readonly reengagements: number;
  readonly events: number;
  readonly conversions: number;
  /** Number of entries on all pages. */
  readonly total: number;
  /** Events of all rows on all pages. */
  readonly all_events: number;
}

export interface RankingOptions {
  readonly column: RankedColumn;
  readonly sortBy: RankedBy;
  /** The currency whose amounts are compared when sorting by revenue. */
  readonly currency: string;
  readonly limit: number;
  readonly offset: number;
}

const attributed = 'toInt64(sum(f_installs)) - toInt64(sum(f_organic_installs))';

const order: Record<RankedBy, string> = {
  clicks: 'sum(f_clicks)',
  unique_clicks: 'sum(f_unique_clicks)',
  installs: 'sum(f_installs)',
  attributed_installs: attributed,
  reinstalls: 'sum(f_reinstalls)',
  opens: 'sum(f_opens)',
  reengagements: 'sum(f_reengagements)',
  events: 'sum(f_events)',
  conversions: 'sum(f_conversions)',
  conversion_rate: `if(sum(f_clicks) = 0, 0., (${attributed}) / sum(f_clicks))`,
  event_conversion_rate: 'if(sum(f_clicks) = 0, 0., sum(f_conversions) / sum(f_clicks))',
  revenue: 'sumIf(f_revenue, f_currency = {currency:String})',
};

const isSomething = 'sum(f_clicks) + sum(f_installs) + sum(f_opens) + sum(f_events) > 0';

function columnOfRanking(column: RankedColumn): FilterColumn {
  return column === 'named_campaign' ? 'campaign' : column;
}

function conditionOn(column: RankedColumn): string {
  return column === 'named_campaign' ? "WHERE k_campaign != ''" : '';
}

/** Unique clicks are 0 unless sorting by them, and revenue is absent: see uniquesOf and revenueOf. */
export function ranking(scope: Scope, options: RankingOptions): Question {
  const { column, sortBy } = options;
  const { sql, params } = figures(scope, {
    columns: [columnOfRanking(column)],
    withUniques: sortBy === 'unique_clicks',
    withRevenue: sortBy === 'revenue',
    withBots: false,
  });
  return {
    sql: `SELECT k_${columnOfRanking(column)} AS id, sum(f_clicks) AS clicks, sum(f_unique_clicks) AS unique_clicks, sum(f_installs) AS installs,
  sum(f_organic_installs) AS organic_installs, sum(f_reinstalls) AS reinstalls, sum(f_opens) AS opens,
  sum(f_reengagements) AS reengagements, sum(f_events) AS events, sum(f_conversions) AS conversions, count() OVER () AS total,
  sum(sum(f_events)) OVER () AS all_events
FROM (${sql}) ${conditionOn(column)} GROUP BY id HAVING ${isSomething}
ORDER BY ${order[sortBy]} DESC, id DESC LIMIT {limit:UInt32} OFFSET {offset:UInt64}`,
    params: { ...params, limit: options.limit, offset: options.offset, currency: options.currency },
  };
}

/** The number of entries, for a page beyond the last. Rows: `total`. */
export function rankingTotal(scope: Scope, column: RankedColumn): Question {
  const { sql, params } = figures(scope, {
    columns: [columnOfRanking(column)],
    withUniques: false,
    withRevenue: false,
    withBots: false,
  });
  return {
    sql: `SELECT count() AS total FROM (SELECT k_${columnOfRanking(column)} AS id FROM (${sql}) ${conditionOn(column)} GROUP BY id HAVING ${isSomething})`,
    params,
  };
}

/** Unique clicks of the ids of one page. Rows: `id`, `f_unique_clicks`, and `f_clicks`, among which they were found. */
export function uniquesOf(scope: Scope, column: RankedColumn, ids: readonly string[]): Question[] {
  const keys = { columns: [columnOfRanking(column)], withUniques: true, withBots: false };
  const parts = figureParts(narrowed(scope, column, ids), keys, ['clicks']);
  return parts.map(({ sql, params }) => ({ sql: sql.replaceAll(`k_${columnOfRanking(column)}`, 'id'), params }));
}

/** Amounts of the ids of one page. Rows: `id`, `f_currency` ('' without an amount), `f_revenue`, and its `f_events`. */
export function revenueOf(scope: Scope, column: RankedColumn, ids: readonly string[]): Question[] {
  const keys = { columns: [columnOfRanking(column)], withUniques: false, withBots: false };
  const parts = figureParts(narrowed(scope, column, ids), keys, ['events']);
  return parts.map(({ sql, params }) => ({ sql: sql.replaceAll(`k_${columnOfRanking(column)}`, 'id'), params }));
}

/** How many links have records under each campaign of one page. Rows: `id`, `links`, `records` of any kind. */
export function linksOfCampaigns(scope: Scope, campaigns: readonly string[]): Question {
  const { sql, params } = keysAlone(narrowed(scope, 'campaign', campaigns), ['campaign', 'link_id']);
  return {
    sql: `SELECT id, countIf(k_link_id != '') AS links, sum(n) AS records FROM (
SELECT k_campaign AS id, k_link_id, sum(f_records) AS n FROM (${sql}) GROUP BY id, k_link_id) GROUP BY id`,
    params,
  };
}

/** The most frequent currency among events with revenue. Rows: `currency`; no row without revenue. */
export function mainCurrency(scope: Scope): Question {
  const { sql, params } = figures(scope, { withUniques: false, withBots: false });
  return {
    sql: `SELECT f_currency AS currency FROM (${sql}) WHERE f_currency != '' GROUP BY currency ORDER BY sum(f_events) DESC, currency LIMIT 1`,
    params,
  };
}

/** Narrows the scope to ids that were found within it, which replaces its own filter on that column. */
function narrowed(scope: Scope, column: RankedColumn, ids: readonly string[]): Scope {
  // A filter by tag has links as its values.
  if (column === 'tag') return scope;
  const filters: Filters = { ...scope.filters, [columnOfRanking(column)]: { values: ids, isExclusion: false } };
  return { ...scope, filters };
}
