/** A page of links or campaigns: the order first, then what only the rows of the page need. */

import type { Page } from '#api/listing.ts';
import {
  mainCurrency,
  type RankedBy,
  type RankedColumn,
  type RankedRow,
  ranking,
  rankingTotal,
  uniquesOf,
} from '#clickhouse/queries/ranking.ts';
import { Rejection } from '#common/http/rejection.ts';
import { type Metrics, metricsOfRanked } from './metrics.ts';
import type { Asked } from './question.ts';

export interface RankedPage {
  readonly rows: readonly { readonly id: string; readonly metrics: Metrics }[];
  readonly total: number;
}

interface Order {
  readonly rows: readonly RankedRow[];
  readonly total: number;
}

/** @param beside what else is to be found out about the ids of the page, at the same time as their unique clicks. */
export async function rankedPage<Beside>(
  asked: Asked,
  column: RankedColumn,
  sortBy: RankedBy,
  page: Page,
  beside: (ids: readonly string[]) => Promise<Beside | Rejection>,
): Promise<(RankedPage & { readonly beside: Beside }) | Rejection> {
  const order = await orderOf(asked, column, sortBy, page);
  if (order instanceof Rejection) return order;
  const [uniques, found] = await Promise.all([
    uniquesOfPage(asked, column, sortBy, order.rows),
    beside(order.rows.map((row) => row.id)),
  ]);
  if (uniques instanceof Rejection) return uniques;
  if (found instanceof Rejection) return found;
  const rows = order.rows.map((row) => ({ id: row.id, metrics: metricsOfRanked(row, uniques.get(row.id) ?? 0) }));
  return { rows, total: order.total, beside: found };
}

async function orderOf(
  { asking, scope }: Asked,
  column: RankedColumn,
  sortBy: RankedBy,
  page: Page,
): Promise<Order | Rejection> {
  const currency = sortBy === 'revenue' ? await asking.rows<{ currency: string }>(mainCurrency(scope)) : [];
  if (currency instanceof Rejection) return currency;
  const rows = await asking.rows<RankedRow>(
    ranking(scope, { column, sortBy, currency: currency[0]?.currency ?? '', ...page }),
  );
  if (rows instanceof Rejection) return rows;
  const total = rows[0]?.total;
  if (total !== undefined || page.offset === 0) return { rows, total: total ?? 0 };
  const totals = await asking.rows<{ total: number }>(rankingTotal(scope, column));
  return totals instanceof Rejection ? totals : { rows, total: totals[0]?.total ?? 0 };
}

async function uniquesOfPage(
  { asking, scope }: Asked,
  column: RankedColumn,
  sortBy: RankedBy,
  rows: readonly RankedRow[],
): Promise<Map<string, number> | Rejection> {
  if (sortBy === 'unique_clicks') return new Map(rows.map((row) => [row.id, row.unique_clicks]));
  const clicked = rows.filter((row) => row.clicks > 0).map((row) => row.id);
  if (clicked.length === 0) return new Map();
  const found = await asking.together<{ id: string; f_unique_clicks: number }>(uniquesOf(scope, column, clicked));
  return found instanceof Rejection ? found : new Map(found.map((row) => [row.id, row.f_unique_clicks]));
}
