/** The metrics in every analytics answer. */
import { Type } from 'typebox';
import type { RankedRow } from '#clickhouse/queries/ranking.ts';
import type { FigureRow } from '#clickhouse/queries/series.ts';
import { addDecimals, quotient, scaled } from '#common/decimal.ts';

export interface Amount {
  /** ISO 4217. */
  readonly currency: string;
  /** An exact decimal as text: sums of money must not use binary floating point. */
  readonly amount: string;
}

export interface Metrics {
  clicks: number;
  unique_clicks: number;
  installs: number;
  attributed_installs: number;
  reinstalls: number;
  opens: number;
  reengagements: number;
  events: number;
  conversions: number;
  /** Attributed installs divided by clicks; 0 if there are no clicks. */
  conversion_rate: number;
  /** Conversions divided by clicks; 0 if there are no clicks. */
  event_conversion_rate: number;
  revenue: readonly Amount[];
}

export interface Totals extends Metrics {
  bot_clicks: number;
  /** Installs without a link. */
  organic_installs: number;
}

export const amountSchema = Type.Object(
  {
    currency: Type.String({ description: 'ISO 4217.' }),
    amount: Type.String({ description: 'An exact decimal.' }),
  },
  { title: 'Amount' },
);

export const metricsFields = {
  clicks: Type.Integer(),
  unique_clicks: Type.Integer({
    description:
      'Clicks with the same app, IP address, user agent and UTC day count once. An estimate, accurate within 2 %.',
  }),
  installs: Type.Integer({ description: 'All installs, including organic ones and reinstalls.' }),
  attributed_installs: Type.Integer({ description: 'Installs that are attributed to a link.' }),
  reinstalls: Type.Integer({
    description: 'Installs on a device that had the app before, within the retention of installs.',
  }),
  opens: Type.Integer({
    description:
      'Openings of an installed app through a link: re-engagements, and deep links on devices without a known install.',
  }),
  reengagements: Type.Integer({ description: 'Opens that brought back a device with a known install.' }),
  events: Type.Integer(),
  conversions: Type.Integer(),
  conversion_rate: Type.Number({ description: 'Attributed installs divided by clicks; 0 if there are no clicks.' }),
  event_conversion_rate: Type.Number({ description: 'Conversions divided by clicks; 0 if there are no clicks.' }),
  revenue: Type.Array(amountSchema),
};

export const totalsFields = {
  ...metricsFields,
  bot_clicks: Type.Integer(),
  organic_installs: Type.Integer({ description: 'Installs that are not attributed to a link.' }),
};

export const totalsSchema = Type.Object(totalsFields, { title: 'Metrics' });

export const exampleMetrics = {
  clicks: 1200,
  unique_clicks: 911,
  installs: 84,
  attributed_installs: 72,
  reinstalls: 5,
  opens: 61,
  reengagements: 48,
  events: 530,
  conversions: 31,
  conversion_rate: 0.06,
  event_conversion_rate: 0.025,
  revenue: [{ currency: 'EUR', amount: '412.5' }],
};

function rate(part: number, clicks: number): number {
  return clicks === 0 ? 0 : part / clicks;
}

/** Converts amounts of several currencies to the amounts to show. */
export type ShowAmounts = (amounts: readonly Amount[]) => readonly Amount[];
const asStored: ShowAmounts = (amounts) => amounts;

/** Combines the rows of one bucket and group. */
export function totalsOf(rows: readonly FigureRow[], show: ShowAmounts = asStored): Totals {
  const amounts = new Map<string, string>();
  const totals: Totals = {
    clicks: 0,
    unique_clicks: 0,
    installs: 0,
    attributed_installs: 0,
    reinstalls: 0,
    opens: 0,
    reengagements: 0,
    events: 0,
    conversions: 0,
    conversion_rate: 0,
    event_conversion_rate: 0,
    revenue: [],
    bot_clicks: 0,
    organic_installs: 0,
  };
  for (const row of rows) {
    totals.clicks += row.f_clicks ?? 0;
    totals.unique_clicks += row.f_unique_clicks ?? 0;
    totals.installs += row.f_installs ?? 0;
    totals.reinstalls += row.f_reinstalls ?? 0;
    totals.opens += row.f_opens ?? 0;
    totals.reengagements += row.f_reengagements ?? 0;
    totals.events += row.f_events ?? 0;
    totals.conversions += row.f_conversions ?? 0;
    totals.bot_clicks += row.f_bot_clicks ?? 0;
    totals.organic_installs += row.f_organic_installs ?? 0;
    if (row.f_currency) {
      amounts.set(row.f_currency, addDecimals(amounts.get(row.f_currency) ?? '0', row.f_revenue ?? '0'));
    }
  }
  totals.unique_clicks = atMost(totals.clicks, totals.unique_clicks);
  totals.attributed_installs = totals.installs - totals.organic_installs;
  totals.conversion_rate = rate(totals.attributed_installs, totals.clicks);
  totals.event_conversion_rate = rate(totals.conversions, totals.clicks);
  totals.revenue = show([...amounts].map(([currency, amount]) => ({ currency, amount })).sort(byCurrency));
  return totals;
}

/**
 * Limits the estimate to the number of clicks. Rows that were queried without clicks have none, and are not limited.
 */
function atMost(clicks: number, uniqueClicks: number): number {
  return clicks === 0 ? uniqueClicks : Math.min(clicks, uniqueClicks);
}

export function metricsOf(rows: readonly FigureRow[], show?: ShowAmounts): Metrics {
  const { bot_clicks: _bots, organic_installs: _organic, ...metrics } = totalsOf(rows, show);
  return metrics;
}

export function metricsOfRanked(row: RankedRow, uniqueClicks: number, revenue: readonly Amount[]): Metrics {
  return {
    clicks: row.clicks,
    unique_clicks: atMost(row.clicks, uniqueClicks),
    installs: row.installs,
    attributed_installs: row.installs - row.organic_installs,
    reinstalls: row.reinstalls,
    opens: row.opens,
    reengagements: row.reengagements,
    events: row.events,
    conversions: row.conversions,
    conversion_rate: rate(row.installs - row.organic_installs, row.clicks),
    event_conversion_rate: rate(row.conversions, row.clicks),
    revenue,
  };
}

export const byCurrency = (a: Amount, b: Amount) => (a.currency < b.currency ? -1 : 1);

type Change = Record<Exclude<keyof Totals, 'revenue'>, number | null> & {
  revenue: { currency: string; ratio: number | null }[];
};

/** The change relative to the previous value (0.5 means 50 % more); null if that was 0. */
export function changeOf(now: Totals, before: Totals): Change {
  const ratio = (a: number, b: number) => (b === 0 ? null : (a - b) / b);
  const amountIn = (totals: Totals, currency: string) =>
    totals.revenue.find((one) => one.currency === currency)?.amount ?? '0';
  const currencies = [...new Set([...now.revenue, ...before.revenue].map((one) => one.currency))].sort();
  return {
    clicks: ratio(now.clicks, before.clicks),
    unique_clicks: ratio(now.unique_clicks, before.unique_clicks),
    installs: ratio(now.installs, before.installs),
    attributed_installs: ratio(now.attributed_installs, before.attributed_installs),
    reinstalls: ratio(now.reinstalls, before.reinstalls),
    opens: ratio(now.opens, before.opens),
    reengagements: ratio(now.reengagements, before.reengagements),
    events: ratio(now.events, before.events),
    conversions: ratio(now.conversions, before.conversions),
    conversion_rate: ratio(now.conversion_rate, before.conversion_rate),
    event_conversion_rate: ratio(now.event_conversion_rate, before.event_conversion_rate),
    bot_clicks: ratio(now.bot_clicks, before.bot_clicks),
    organic_installs: ratio(now.organic_installs, before.organic_installs),
    revenue: currencies.map((currency) => ({
      currency,
      ratio: decimalRatio(amountIn(now, currency), amountIn(before, currency)),
    })),
  };
}

/** One amount as a share of another that is not 0, rounded to six places. */
export function decimalShare(part: string, whole: string): number {
  return Number(quotient(scaled(part) * ratioScale, scaled(whole))) / Number(ratioScale);
}

const ratioScale = 1_000_000n;

/**
 * The change from one amount to another, relative to the earlier one, rounded to six places. An increase is positive
 * even if refunds made the earlier amount negative.
 */
export function decimalRatio(now: string, before: string): number | null {
  const [a, b] = [scaled(now), scaled(before)];
  if (b === 0n) return null;
  const [difference, size] = [a - b, b < 0n ? -b : b];
  const half = difference < 0n ? -size : size;
  return Number((2n * difference * ratioScale + half) / (2n * size)) / Number(ratioScale);
}

export function bySlot(rows: readonly FigureRow[]): Map<number, FigureRow[]> {
  const groups = new Map<number, FigureRow[]>();
  for (const row of rows) {
    const group = groups.get(row.slot);
    if (group) group.push(row);
    else groups.set(row.slot, [row]);
  }
  return groups;
}
