/** The overview: totals, one chart, and breakdowns. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Suspense, useState } from 'react';
import { useAddress, useView } from '#dashboard/address.ts';
import { call, urlOf } from '#dashboard/api.ts';
import { ago, bare } from '#dashboard/format.ts';
import { type MetricName, mainCurrency, metricNames } from '#dashboard/metrics.ts';
import { AppChoice } from '#dashboard/parts/app-choice.tsx';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { FilterChips, PeriodBar } from '#dashboard/parts/period-bar.tsx';
import { screen } from '#dashboard/parts/screen-boundary.tsx';
import { totalsMs, useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { FirstRun, useGuide } from './first-run.tsx';
import { OverviewChart } from './overview-chart.tsx';
import { fieldsShown, OverviewLists, sortOf } from './overview-lists.tsx';
import { Totals } from './overview-totals.tsx';

const SavedViews = screen(async () => ({ default: (await import('./saved-views.tsx')).SavedViews }));

export function Overview() {
  const view = useView();
  const { get, set } = useAddress();
  const apps = useApps();
  const guide = useGuide();
  const [showsViews, setShowsViews] = useState(false);
  const metric: MetricName = metricNames.find((one) => one === get('metric')) ?? 'clicks';
  // One request for everything; other tabs of the lists are requested when they are selected.
  const [fields] = useState(() => fieldsShown(get).join(','));
  const query = { ...view, previous: true, breakdowns: fields, sort_by: sortOf(metric) };
  const found = useQuery({
    queryKey: ['page', query],
    queryFn: () => call('GET /analytics/page', { query }),
    placeholderData: keepPreviousData,
    staleTime: 0,
    refetchInterval: totalsMs,
  });
  const page = found.data;
  const link = useQuery({
    queryKey: ['link', view.link_id],
    queryFn: () => call('GET /links/{id}', { params: { id: view.link_id ?? '' } }),
    enabled: view.link_id !== undefined && !view.link_id.includes(','),
  });
  const isGuided = apps.data?.data.some(({ id }) => id === guide.appId) === true;
  if (apps.data?.pagination.total === 0 || isGuided) return <FirstRun {...guide} />;
  const currency = page ? mainCurrency(page.totals) : '';
  const names = new Map((apps.data?.data ?? []).map((app) => [app.id, app.name]));
  if (link.data) names.set(link.data.id, bare(link.data.url));
  const isQuiet = page?.totals.clicks === 0 && !found.isPlaceholderData;
  return (
    <div className="stack">
      <div className="head">
        <h1>{t('nav.overview')}</h1>
        {(apps.data?.data.length ?? 0) > 1 ? (
          <AppChoice value={get('app_id') ?? null} onChange={(app_id) => set({ app_id })} />
        ) : null}
        <button type="button" onClick={() => setShowsViews(true)}>
          {t('views.button')}
        </button>
        <PeriodBar range={page ?? null} zone={view.timezone} />
      </div>
      {showsViews ? (
        <Suspense fallback={null}>
          <SavedViews onClose={() => setShowsViews(false)} />
        </Suspense>
      ) : null}
      <FilterChips names={names} />
      {found.isError && !page ? <Failure error={found.error} retry={() => void found.refetch()} /> : null}
      <section className="card" aria-label={t('overview.figures')}>
        {page ? (
          <Totals
            {...page}
            currency={currency}
            chosen={metric}
            onChoose={(name) => set({ metric: name === 'clicks' ? null : name })}
          />
        ) : found.isError ? null : (
          <Loading lines={2} />
        )}
        {page || !found.isError ? <OverviewChart view={view} metric={metric} currency={currency} page={page} /> : null}
        <div className="caption">
          {page && page.as_of > '1971' ? <span>{t('as_of', { time: ago(page.as_of) })}</span> : null}
          <span className="push">
            <a href={urlOf('/analytics/export', {}, { ...view, kind: 'clicks', format: 'csv' })} download>
              {t('export.clicks')}
            </a>
          </span>
        </div>
      </section>
      {isQuiet ? <p className="notice">{t('overview.quiet')}</p> : null}
      <OverviewLists view={view} metric={metric} currency={currency} page={page} />
    </div>
  );
}
