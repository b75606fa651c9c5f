import type { Answer } from '#dashboard/api.ts';
import { changeText, money } from '#dashboard/format.ts';
import { figureOf, type MetricName, metricNames, shownFigure } from '#dashboard/metrics.ts';
import { t } from '#dashboard/texts/text.ts';

type Page = Answer<'GET /analytics/page'>;

interface TotalsProps extends Pick<Page, 'totals' | 'change' | 'previous'> {
  readonly currency: string;
  readonly chosen: MetricName;
  readonly onChoose: (metric: MetricName) => void;
}

export function Totals({ totals, change, previous, currency, chosen, onChoose }: TotalsProps) {
  const ratioOf = (metric: MetricName): number | null => {
    if (metric !== 'revenue') return change?.[metric] ?? null;
    return change?.revenue.find((one) => one.currency === currency)?.ratio ?? null;
  };
  return (
    <div className="totals">
      {metricNames.map((metric) => {
        const [value, was] = [figureOf(totals, metric, currency), previous ? figureOf(previous, metric, currency) : 0];
        const more = metric === 'revenue' ? totals.revenue.filter((one) => one.currency !== currency) : [];
        return (
          <div className="total" key={metric}>
            <button type="button" aria-pressed={metric === chosen} onClick={() => onChoose(metric)}>
              {t(`metric.${metric}`)}
            </button>
            <output aria-label={t(`metric.${metric}`)} title={shownFigure(value, metric, currency, false)}>
              {shownFigure(value, metric, currency)}
            </output>
            <Change ratio={ratioOf(metric)} was={shownFigure(was, metric, currency)} isNew={was === 0 && value > 0} />
            {more.length > 0 ? (
              <span className="small muted cut">
                {more.map((one) => `+ ${money(one.amount, one.currency, true)}`).join(' ')}
              </span>
            ) : null}
          </div>
        );
      })}
    </div>
  );
}

function Change(props: { readonly ratio: number | null; readonly was: string; readonly isNew: boolean }) {
  const { ratio, was, isNew } = props;
  if (ratio === null) return <span className="change">{isNew ? t('change.new') : '–'}</span>;
  // As it is shown: less than half a percent is no change.
  const percent = Math.round(ratio * 100);
  const sign = percent > 0 ? 'up' : percent < 0 ? 'down' : '';
  return (
    <span className={`change ${sign}`} title={t('change.was', { value: was })}>
      {percent > 0 ? '↑ ' : percent < 0 ? '↓ ' : ''}
      {changeText(Math.abs(ratio)).replace('+', '')}
    </span>
  );
}
