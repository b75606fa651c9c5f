import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useAddress, type View } from '#dashboard/address.ts';
import { type Answer, call, type Query } from '#dashboard/api.ts';
import { changeText } from '#dashboard/format.ts';
import { axisFigure, figureOf, type MetricName, shownFigure } from '#dashboard/metrics.ts';
import { Chart, type Point } from '#dashboard/parts/chart.tsx';
import { Loading } from '#dashboard/parts/feedback.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { pointsOf } from '#dashboard/points.ts';
import { refreshMs } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';

type Page = Answer<'GET /analytics/page'>;

interface OverviewChartProps {
  readonly view: View;
  readonly metric: MetricName;
  readonly currency: string;
  /** Undefined while it is loading. */
  readonly page: Page | undefined;
}

export function OverviewChart({ view, metric, currency, page }: OverviewChartProps) {
  const { get, set } = useAddress();
  const [isTable, setTable] = useState(false);
  const compares = get('compare') === '1';
  const { previous, granularity } = page ?? {};
  const before = useSeries(
    {
      ...view,
      interval: undefined,
      start: previous?.start,
      end: previous?.end,
      // The API answers with one of the values that it accepts.
      granularity: granularity as Granularity | undefined,
    },
    compares && Boolean(previous),
  );
  if (!page) return <Loading lines={6} />;
  const points = pointsOf({ ...page, data: page.timeseries }, metric, currency);
  const earlier = compares && before.data ? pointsOf(before.data, metric, currency) : null;
  const format = (value: number) => shownFigure(value, metric, currency, false);
  const summary = summaryOf(points, metric, page, currency, format);
  return (
    <figure>
      {isTable ? (
        <PointTable points={points} metric={metric} format={format} />
      ) : (
        <Chart
          points={points}
          before={earlier}
          title={summary}
          format={format}
          axis={(value) => axisFigure(value, metric)}
          isPartial={Date.parse(page.end) > Date.now()}
        />
      )}
      <figcaption className="caption">
        <span>{summary}</span>
        <button
          type="button"
          className="plain push"
          aria-pressed={compares}
          onClick={() => set({ compare: compares ? null : '1' })}
        >
          {t(compares ? 'chart.alone' : 'chart.compare')}
        </button>
        <button type="button" className="plain" onClick={() => setTable(!isTable)}>
          {t(isTable ? 'chart.as_chart' : 'chart.as_table')}
        </button>
      </figcaption>
    </figure>
  );
}

type Granularity = NonNullable<Query<'GET /analytics/timeseries'>['granularity']>;

function useSeries(query: Query<'GET /analytics/timeseries'>, isEnabled: boolean) {
  return useQuery({
    queryKey: ['timeseries', query],
    queryFn: () => call('GET /analytics/timeseries', { query }),
    placeholderData: keepPreviousData,
    refetchInterval: refreshMs,
    enabled: isEnabled,
  });
}

function PointTable(props: {
  readonly points: readonly Point[];
  readonly metric: MetricName;
  readonly format: (value: number) => string;
}) {
  const { points, metric, format } = props;
  return (
    <ScrollArea label={t('chart.table')} height="tall">
      <table>
        <thead>
          <tr>
            <th>{t('chart.time')}</th>
            <th className="num">{t(`metric.${metric}`)}</th>
          </tr>
        </thead>
        <tbody>
          {points.map(({ label, value }, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: buckets have no other identity, and never move
            <tr key={at}>
              <td>{label}</td>
              <td className="num">{format(value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}

/** A one-sentence summary of the chart. */
function summaryOf(
  points: readonly Point[],
  metric: MetricName,
  { totals, change }: Page,
  currency: string,
  format: (value: number) => string,
): string {
  const best = points.reduce<Point | null>((top, one) => (one.value > (top?.value ?? 0) ? one : top), null);
  const name = t(`metric.${metric}`);
  if (!best) return t('chart.nothing', { name });
  const total = format(figureOf(totals, metric, currency));
  const ratio = metric === 'revenue' ? null : change?.[metric];
  const parts = { name, total, best: format(best.value), when: best.label };
  return ratio === null || ratio === undefined
    ? t('chart.summary', parts)
    : t('chart.summary_change', { ...parts, change: changeText(ratio) });
}
