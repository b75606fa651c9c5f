/** The buckets of a series as points of a chart. */
import type { Answer } from './api.ts';
import { date } from './format.ts';
import { type Figures, figureOf, type MetricName } from './metrics.ts';
import type { Point } from './parts/chart.tsx';

const styles: Readonly<Record<string, Intl.DateTimeFormatOptions>> = {
  hour: { weekday: 'short', hour: 'numeric', minute: '2-digit' },
  day: { month: 'short', day: 'numeric' },
  week: { month: 'short', day: 'numeric' },
  month: { month: 'short', year: 'numeric' },
};

type Series = Pick<Answer<'GET /analytics/page'>, 'granularity' | 'timezone'> & {
  readonly data: readonly (Figures & { readonly start: string })[];
};

export function pointsOf({ data, granularity, timezone }: Series, metric: MetricName, currency: string): Point[] {
  const style = styles[granularity] ?? {};
  return data.map((bucket) => ({
    label: date(bucket.start, timezone, style),
    value: figureOf(bucket, metric, currency),
  }));
}
