/**
 * A page of ranked rows, such as links or campaigns: first queries the order, then the remaining figures of the page's
 * rows only.
 */
import type { Page } from '#api/listing.ts';
import {
  mainCurrency,
  type RankedBy,
  type RankedColumn,
  type RankedRow,
  ranking,
  rankingTotal,
  revenueOf,
  uniquesOf,
} from '#clickhouse/queries/ranking.ts';
import type { Scope } from '#clickhouse/queries/scope.ts';
import { Rejection } from '#common/http/rejection.ts';
import { type CountKeyedCache, keyOfScope } from './count-keyed-cache.ts';
import { type Amount, byCurrency, type Metrics, metricsOfRanked } from './metrics.ts';
import type { AnalyticsQuestion } from './question.ts';

export interface RankedPage {
  readonly rows: readonly { readonly id: string; readonly metrics: Metrics }[];
  readonly total: number;
}

export interface Found<Figure> {
  readonly figure: Figure;
  readonly count: number;
}

interface Order {
  readonly rows: readonly RankedRow[];
  readonly total: number;
}

/** @param beside additional queries about the rows of the page, run concurrently with those for the page's figures. */
export async function rankedPage<Beside>(
  asked: AnalyticsQuestion,
  column: RankedColumn,
  sortBy: RankedBy,
  page: Page,
  beside: (rows: readonly RankedRow[]) => Promise<Beside | Rejection>,
): Promise<(RankedPage & { readonly beside: Beside }) | Rejection> {
  const order = await orderOf(asked, column, sortBy, page);
  if (order instanceof Rejection) return order;
  const [uniques, revenue, found] = await Promise.all([
    uniquesOfPage(asked, column, sortBy, order.rows),
    revenueOfPage(asked, column, order.rows),
    beside(order.rows),
  ]);
  if (uniques instanceof Rejection) return uniques;
  if (revenue instanceof Rejection) return revenue;
  if (found instanceof Rejection) return found;
  const show = asked.conversion?.convert ?? ((amounts: readonly Amount[]) => amounts);
  const rows = order.rows.map((row) => ({
    id: row.id,
    metrics: metricsOfRanked(row, uniques.get(row.id) ?? 0, show(revenue.get(row.id) ?? [])),
  }));
  return { rows, total: order.total, beside: found };
}

/**
 * A figure of each row of a page: from the cache if the row has the same number of records as when it was cached,
 * otherwise queried. Ids without a result get `none`.
 * @param countOf the number of the row's records from which the figure is computed.
 * @param ask queries the figure for some ids, with the number of records counted by that query: that table may have had
 * more or fewer records than the one that gave the order.
 */
export async function figuresOfPage<Figure>(
  { scope }: AnalyticsQuestion,
  column: RankedColumn,
  rows: readonly RankedRow[],
  figure: {
    readonly kept: CountKeyedCache<Figure>;
    readonly none: Figure;
    readonly countOf: (row: RankedRow) => number;
    /**
     * The cache key of a row's figure; null if it can't be cached. Defaults to the row's id, which is wrong if records
     * can move to another row.
     */
    readonly nameOf?: (row: RankedRow) => string | null;
    readonly ask: (ids: readonly string[]) => Promise<Map<string, Found<Figure>> | Rejection>;
  },
): Promise<Map<string, Figure> | Rejection> {
  const { kept, none, countOf, nameOf = (row) => row.id, ask } = figure;
  const prefix = keyOfScope(scope, column);
  const figures = new Map<string, Figure>();
  const unknown: RankedRow[] = [];
  for (const row of rows) {
    const name = nameOf(row);
    const same = name === null ? undefined : kept.get(prefix + name, countOf(row));
    const known = countOf(row) === 0 ? none : same;
    if (known === undefined) unknown.push(row);
    else figures.set(row.id, known);
  }
  if (unknown.length === 0) return figures;
  const found = await ask(unknown.map((row) => row.id));
  if (found instanceof Rejection) return found;
  for (const row of unknown) {
    const value = found.get(row.id);
    figures.set(row.id, value?.figure ?? none);
    const name = nameOf(row);
    if (value && name !== null) kept.put(prefix + name, value.count, value.figure);
  }
  return figures;
}

async function orderOf(
  { queries, scope }: AnalyticsQuestion,
  column: RankedColumn,
  sortBy: RankedBy,
  page: Page,
): Promise<Order | Rejection> {
  const currency = sortBy === 'revenue' ? await queries.rows<{ currency: string }>(mainCurrency(scope)) : [];
  if (currency instanceof Rejection) return currency;
  const rows = await queries.rows<RankedRow>(
    ranking(scope, { column, sortBy, currency: currency[0]?.currency ?? '', ...page }),
  );
  if (rows instanceof Rejection) return rows;
  const total = rows[0]?.total;
  if (total !== undefined || page.offset === 0) return { rows, total: total ?? 0 };
  const totals = await queries.rows<{ total: number }>(rankingTotal(scope, column));
  return totals instanceof Rejection ? totals : { rows, total: totals[0]?.total ?? 0 };
}

async function uniquesOfPage(
  asked: AnalyticsQuestion,
  column: RankedColumn,
  sortBy: RankedBy,
  rows: readonly RankedRow[],
): Promise<Map<string, number> | Rejection> {
  if (sortBy === 'unique_clicks') return new Map(rows.map((row) => [row.id, row.unique_clicks]));
  return await figuresOfPage(asked, column, rows, {
    kept: asked.kept.uniqueClicks,
    none: 0,
    countOf: (row) => row.clicks,
    ask: async (ids) => {
      const questions = uniquesOf(asked.scope, column, ids);
      const rows = await asked.queries.together<{ id: string; f_clicks: number; f_unique_clicks: number }>(questions);
      if (rows instanceof Rejection) return rows;
      return new Map(rows.map((row) => [row.id, { figure: row.f_unique_clicks, count: row.f_clicks }]));
    },
  });
}

/**
 * An event that gets its link later may also change its country or another field, so rows of other columns can lose
 * events. Only rows of a link or campaign never lose one.
 */
function nameOfAmounts(scope: Scope, column: RankedColumn, row: RankedRow): string | null {
  if (column !== 'link_id' && column !== 'campaign' && column !== 'named_campaign') return null;
  return row.id === '' ? nameWithoutLink(scope, row) : row.id;
}

/**
 * An event without a link gets one if its install arrives later: the row then loses an event, but all rows together do
 * not. So the total of events is part of the key: together with the row's own count, it is unchanged only while the row
 * has the same events, unless such an event can also leave the scope.
 */
function nameWithoutLink({ filters }: Scope, { all_events }: RankedRow): string | null {
  const isClosed = Object.keys(filters).every((column) => column === 'app_id');
  return isClosed ? `\0${all_events}` : null;
}

interface AmountRow {
  readonly id: string;
  readonly f_currency: string;
  readonly f_revenue: string;
  readonly f_events: number;
}

async function revenueOfPage(
  asked: AnalyticsQuestion,
  column: RankedColumn,
  rows: readonly RankedRow[],
): Promise<Map<string, readonly Amount[]> | Rejection> {
  return await figuresOfPage<readonly Amount[]>(asked, column, rows, {
    kept: asked.kept.revenue,
    none: [],
    countOf: (row) => row.events,
    nameOf: (row) => nameOfAmounts(asked.scope, column, row),
    ask: async (ids) => {
      const questions = revenueOf(asked.scope, column, ids);
      const rows = await asked.queries.together<AmountRow>(questions);
      if (rows instanceof Rejection) return rows;
      const amounts = new Map<string, { figure: Amount[]; count: number }>();
      for (const { id, f_currency, f_revenue, f_events } of rows) {
        const found = amounts.get(id) ?? { figure: [], count: 0 };
        found.count += f_events;
        if (f_currency !== '') found.figure.push({ currency: f_currency, amount: f_revenue });
        amounts.set(id, found);
      }
      for (const { figure } of amounts.values()) figure.sort(byCurrency);
      return amounts;
    },
  });
}
