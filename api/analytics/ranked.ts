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

export async function rankedPage(
  { asking, scope }: Asked,
  column: RankedColumn,
  sortBy: RankedBy,
  page: Page,
): Promise<RankedPage | Rejection> {
  const currency = sortBy === 'revenue' ? await asking.rows<{ currency: string }>(mainCurrency(scope)) : [];
  if (currency instanceof Rejection) return currency;
  const rows = await asking.rows<RankedRow>(
    ranking(scope, { column, sortBy, currency: currency[0]?.currency ?? '', ...page }),
  );
  if (rows instanceof Rejection) return rows;
  if (rows.length === 0) {
    if (page.offset === 0) return { rows: [], total: 0 };
    const totals = await asking.rows<{ total: number }>(rankingTotal(scope, column));
    return totals instanceof Rejection ? totals : { rows: [], total: totals[0]?.total ?? 0 };
  }
  const uniques = await uniquesOfPage(asking, scope, column, sortBy, rows);
  if (uniques instanceof Rejection) return uniques;
  return {
    rows: rows.map((row) => ({ id: row.id, metrics: metricsOfRanked(row, uniques.get(row.id) ?? 0) })),
    total: rows[0]?.total ?? 0,
  };
}

async function uniquesOfPage(
  asking: Asked['asking'],
  scope: Asked['scope'],
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
