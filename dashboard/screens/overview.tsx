/** How the links are doing: totals, one chart, and what they come from. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { type FilterName, filterValue, useAddress, useView } from '#dashboard/address.ts';
import { call, urlOf } from '#dashboard/api.ts';
import { ago, bare } from '#dashboard/format.ts';
import { type MetricName, mainCurrency, metricNames } from '#dashboard/metrics.ts';
import { AppChoice } from '#dashboard/parts/app-choice.tsx';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { FilterChips, PeriodBar } from '#dashboard/parts/period-bar.tsx';
import { totalsMs, useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { FirstRun, useGuide } from './first-run.tsx';
import { OverviewChart } from './overview-chart.tsx';
import { Places, Sources } from './overview-lists.tsx';
import { Totals } from './overview-totals.tsx';

export function Overview() {
  const view = useView();
  const { get, set } = useAddress();
  const apps = useApps();
  const guide = useGuide();
  const metric: MetricName = metricNames.find((one) => one === get('metric')) ?? 'clicks';
  const overview = useQuery({
    queryKey: ['overview', view],
    queryFn: () => call('GET /analytics/overview', { query: view }),
    placeholderData: keepPreviousData,
    staleTime: 0,
    refetchInterval: totalsMs,
  });
  const link = useQuery({
    queryKey: ['link', view.link_id],
    queryFn: () => call('GET /links/{id}', { params: { id: view.link_id ?? '' } }),
    enabled: view.link_id !== undefined && !view.link_id.includes(','),
  });
  const isGuided = apps.data?.data.some(({ id }) => id === guide.appId) === true;
  if (apps.data?.pagination.total === 0 || isGuided) return <FirstRun {...guide} />;
  const pick = (name: FilterName) => (value: string) => set({ [name]: value === '' ? '' : filterValue(value) });
  const currency = overview.data ? mainCurrency(overview.data.totals) : '';
  const names = new Map((apps.data?.data ?? []).map((app) => [app.id, app.name]));
  if (link.data) names.set(link.data.id, bare(link.data.url));
  const isQuiet = overview.data?.totals.clicks === 0 && !overview.isPlaceholderData;
  return (
    <div className="stack">
      <div className="head">
        <h1>{t('nav.overview')}</h1>
        {(apps.data?.data.length ?? 0) > 1 ? (
          <AppChoice value={get('app_id') ?? null} onChange={(app_id) => set({ app_id })} />
        ) : null}
        <PeriodBar range={overview.data ?? null} zone={view.timezone} />
      </div>
      <FilterChips names={names} />
      {overview.isError && !overview.data ? (
        <Failure error={overview.error} retry={() => void overview.refetch()} />
      ) : null}
      <section className="card" aria-label={t('overview.figures')}>
        {overview.data ? (
          <Totals
            {...overview.data}
            currency={currency}
            chosen={metric}
            onChoose={(name) => set({ metric: name === 'clicks' ? null : name })}
          />
        ) : overview.isError ? null : (
          <Loading lines={2} />
        )}
        <OverviewChart view={view} metric={metric} currency={currency} overview={overview.data} />
        <div className="caption">
          {overview.data && overview.data.as_of > '1971' ? (
            <span>{t('as_of', { time: ago(overview.data.as_of) })}</span>
          ) : null}
          <span className="push">
            <a href={urlOf('/analytics/export', {}, { ...view, kind: 'clicks', format: 'csv' })} download>
              {t('export')}
            </a>
          </span>
        </div>
      </section>
      {isQuiet ? <p className="notice">{t('overview.quiet')}</p> : null}
      <div className="grid2">
        <Sources view={view} metric={metric} currency={currency} pick={pick} />
        <Places view={view} metric={metric} currency={currency} pick={pick} />
      </div>
    </div>
  );
}
