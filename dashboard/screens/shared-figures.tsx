/** The figures of a shared page. */
import { useState } from 'react';
import type { Answer } from '#dashboard/api.ts';
import { country } from '#dashboard/format.ts';
import { axisFigure, figureOf, type MetricName, mainCurrency, metricNames, shownFigure } from '#dashboard/metrics.ts';
import { Chart } from '#dashboard/parts/chart.tsx';
import { Ranks } from '#dashboard/parts/ranks.tsx';
import { pointsOf } from '#dashboard/points.ts';
import { named, t } from '#dashboard/texts/text.ts';

interface FiguresProps {
  readonly figures: Answer<'POST /shared-figures'>;
}

export function SharedTotals({ figures }: FiguresProps) {
  const [chosen, setChosen] = useState<MetricName>('clicks');
  const { totals, timeseries, end } = figures;
  const currency = mainCurrency(totals);
  const names = metricNames.filter((name) => name !== 'revenue' || currency !== '');
  const metric = names.includes(chosen) ? chosen : 'clicks';
  const format = (value: number) => shownFigure(value, metric, currency, false);
  return (
    <section className={names.length === 5 ? 'card five' : 'card'} aria-label={t('overview.figures')}>
      <div className="totals">
        {names.map((name) => (
          <div className="total" key={name}>
            <button type="button" aria-pressed={name === metric} onClick={() => setChosen(name)}>
              {t(`metric.${name}`)}
            </button>
            <output aria-label={t(`metric.${name}`)}>
              {shownFigure(figureOf(totals, name, currency), name, currency)}
            </output>
          </div>
        ))}
      </div>
      <Chart
        points={pointsOf({ ...figures, data: timeseries }, metric, currency)}
        title={t('chart.of_link', {
          name: t(`metric.${metric}`),
          total: format(figureOf(totals, metric, currency)),
        })}
        format={format}
        axis={(value) => axisFigure(value, metric)}
        isPartial={Date.parse(end) > Date.now()}
      />
    </section>
  );
}

export function SharedBreakdowns({ figures }: FiguresProps) {
  return (
    <div className="grid2">
      {figures.breakdowns.map(({ by, data }) => (
        <section className="card" key={by}>
          <header>
            <h2>{named('list', by)}</h2>
          </header>
          {data.length === 0 ? (
            <p className="ranks none muted">{t('list.nothing')}</p>
          ) : (
            <Ranks
              rows={data.map(({ value, clicks }) => ({
                key: value ?? '',
                label: labelOf(by, value),
                value: clicks,
                shown: shownFigure(clicks, 'clicks', ''),
              }))}
            />
          )}
        </section>
      ))}
    </div>
  );
}

function labelOf(by: string, value: string | null): string {
  if (value === null) return t(by === 'referrer' ? 'direct' : 'unknown');
  if (by === 'country') return country(value);
  return by === 'platform' ? named('platform', value) : value;
}
