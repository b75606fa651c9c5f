/** The metrics that the overview can show, and how they are formatted. */
import type { Answer } from './api.ts';
import { axis, money, share, short, whole } from './format.ts';

export const metricNames = ['clicks', 'unique_clicks', 'installs', 'events', 'conversion_rate', 'revenue'] as const;
export type MetricName = (typeof metricNames)[number];

/** The part of every statistics response that is shown. */
export type Figures = Pick<Answer<'GET /analytics/overview'>['totals'], MetricName>;

/** The currency with the largest amount; revenue is never converted. */
export function mainCurrency({ revenue }: Pick<Figures, 'revenue'>): string {
  const sorted = [...revenue].sort((a, b) => Number(b.amount) - Number(a.amount));
  return sorted[0]?.currency ?? '';
}

export function figureOf(figures: Figures, metric: MetricName, currency: string): number {
  if (metric !== 'revenue') return figures[metric];
  return Number(figures.revenue.find((one) => one.currency === currency)?.amount ?? 0);
}

export function shownFigure(value: number, metric: MetricName, currency: string, isShort = true): string {
  if (metric === 'conversion_rate') return share(value);
  if (metric !== 'revenue') return isShort ? short(value) : whole(value);
  return currency === '' ? '–' : money(value, currency, isShort);
}

export function axisFigure(value: number, metric: MetricName): string {
  return metric === 'conversion_rate' ? share(value) : axis(value);
}
