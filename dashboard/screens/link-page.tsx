/** One link: its statistics, settings and QR code. */
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Suspense, useState } from 'react';
import { Link as PageLink, useLocation } from 'wouter';
import { useAddress, useView, type View } from '#dashboard/address.ts';
import { type Answer, call, urlOf } from '#dashboard/api.ts';
import { ago, bare, country, time } from '#dashboard/format.ts';
import type { Link } from '#dashboard/link-draft.ts';
import { clicksUsed } from '#dashboard/link-words.ts';
import { listText } from '#dashboard/list-text.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { axisFigure, figureOf, type MetricName, mainCurrency, metricNames, shownFigure } from '#dashboard/metrics.ts';
import { Chart } from '#dashboard/parts/chart.tsx';
import { Confirm } from '#dashboard/parts/dialog.tsx';
import { CopyButton, Failure, failureText, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { FilterChips, PeriodBar } from '#dashboard/parts/period-bar.tsx';
import { Ranks } from '#dashboard/parts/ranks.tsx';
import { screen } from '#dashboard/parts/screen-boundary.tsx';
import { TabCard } from '#dashboard/parts/tabs.tsx';
import { pointsOf } from '#dashboard/points.ts';
import { refreshMs, showStored, useApps } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { LinkForm } from './link-form.tsx';
import { LinkHistory } from './link-history.tsx';
import { qrOf } from './link-ready.tsx';
import { LinkState } from './link-table.tsx';
import { WhoSeesWhat } from './who-sees-what.tsx';

const Share = screen(async () => ({ default: (await import('./share.tsx')).Share }));
/** Loaded on demand, because it contains the QR code generator, which few visits need. */
const QrDesigner = screen(async () => ({ default: (await import('./qr-designer.tsx')).QrDesigner }));

/** For links with rules. */
const RuleFigures = screen(async () => ({ default: (await import('./rule-figures.tsx')).RuleFigures }));

type Stats = Answer<'GET /links/{id}/stats'>;

export function LinkPage({ id }: { readonly id: string }) {
  const found = useQuery({ queryKey: ['link', id], queryFn: () => call('GET /links/{id}', { params: { id } }) });
  if (found.isError) return <Failure error={found.error} retry={() => void found.refetch()} />;
  if (!found.data) return <Loading />;
  return <Loaded link={found.data} />;
}

function Loaded({ link }: { readonly link: Link }) {
  const { app_id: _app, link_id: _link, ...view } = useView();
  const stats = useQuery({
    queryKey: ['stats', link.id, view],
    queryFn: () => call('GET /links/{id}/stats', { params: { id: link.id }, query: view }),
    placeholderData: keepPreviousData,
    refetchInterval: refreshMs,
  });
  return (
    <div className="stack">
      <div className="head">
        <div className="two">
          <h1>{link.title || bare(link.url)}</h1>
          <a className="small" href={link.url} target="_blank" rel="noreferrer">
            {bare(link.url)}
          </a>
        </div>
        <LinkState link={link} />
        <CopyButton text={link.url} label={t('copy')} />
        <Actions link={link} />
        <PeriodBar range={stats.data ?? null} zone={view.timezone} />
      </div>
      <FilterChips names={new Map()} />
      {stats.isError && !stats.data ? <Failure error={stats.error} retry={() => void stats.refetch()} /> : null}
      {stats.data ? (
        <StatsOf id={link.id} stats={stats.data} view={view} />
      ) : stats.isError ? null : (
        <section className="card">
          <Loading lines={8} />
        </section>
      )}
      <div className="grid2">
        {stats.data ? <Breakdown stats={stats.data} /> : <span />}
        <Details link={link} />
      </div>
      {link.rules?.length ? (
        <Suspense fallback={null}>
          <RuleFigures link={link} />
        </Suspense>
      ) : null}
      <WhoSeesWhat link={link} />
      <LinkHistory link={link} />
    </div>
  );
}

interface StatsProps {
  readonly id: string;
  readonly stats: Stats;
  readonly view: Partial<View>;
}

function StatsOf({ id, stats, view }: StatsProps) {
  const { get, set } = useAddress();
  const metric: MetricName = metricNames.find((one) => one === get('metric')) ?? 'clicks';
  const currency = mainCurrency(stats.totals);
  const format = (value: number) => shownFigure(value, metric, currency, false);
  const points = pointsOf({ ...stats, data: stats.timeseries }, metric, currency);
  const last = stats.last_clicked_at;
  return (
    <section className="card" aria-label={t('overview.figures')}>
      <div className="totals">
        {metricNames.map((name) => (
          <div className="total" key={name}>
            <button
              type="button"
              aria-pressed={name === metric}
              onClick={() => set({ metric: name === 'clicks' ? null : name })}
            >
              {t(`metric.${name}`)}
            </button>
            <output aria-label={t(`metric.${name}`)}>
              {shownFigure(figureOf(stats.totals, name, currency), name, currency)}
            </output>
          </div>
        ))}
      </div>
      <Chart
        points={points}
        title={t('chart.of_link', {
          name: t(`metric.${metric}`),
          total: format(figureOf(stats.totals, metric, currency)),
        })}
        format={format}
        axis={(value) => axisFigure(value, metric)}
        isPartial={Date.parse(stats.end) > Date.now()}
      />
      <div className="caption">
        <span>{last ? t('link.last_click', { time: ago(last) }) : t('link.no_click')}</span>
        <PageLink href={`/debugger?device=${id}`}>{t('link.live')}</PageLink>
        <a href={urlOf('/analytics/export', {}, { ...view, link_id: id, kind: 'clicks', format: 'csv' })} download>
          {t('link.clicks_csv')}
        </a>
        {stats.as_of > '1971' ? <span className="push">{t('as_of', { time: ago(stats.as_of) })}</span> : null}
      </div>
    </section>
  );
}

const breakdowns = ['country', 'platform', 'browser', 'os', 'referrer'] as const;

function Breakdown({ stats }: { readonly stats: Stats }) {
  const { get, set } = useAddress();
  const by = breakdowns.find((one) => one === get('by')) ?? 'country';
  const rows = (stats[`by_${by}`] ?? []) as readonly Record<string, unknown>[];
  const labelOf = (row: Record<string, unknown>) => {
    const value = row[by];
    if (row['is_rest'] === true) return t('rest');
    if (typeof value !== 'string') return t(by === 'referrer' ? 'direct' : 'unknown');
    return by === 'country' ? country(value) : by === 'platform' ? named('platform', value) : value;
  };
  return (
    <TabCard
      tabs={breakdowns.map((name) => [name, t(`list.by_${name}`)] as const)}
      chosen={by}
      onChoose={(name) => set({ by: name === 'country' ? null : name })}
    >
      {rows.length === 0 ? (
        <p className="ranks none muted">{t('list.nothing')}</p>
      ) : (
        <Ranks
          rows={rows.map((row) => ({
            key: `${row['is_rest'] === true}${String(row[by])}`,
            label: labelOf(row),
            value: Number(row['clicks']),
            shown: shownFigure(Number(row['clicks']), 'clicks', ''),
          }))}
        />
      )}
    </TabCard>
  );
}

function Details({ link }: { readonly link: Link }) {
  const [designs, setDesigns] = useState(false);
  const { timezone } = useView();
  const rows: (readonly [label: string, value: string | null])[] = [
    [t('link.destination'), link.fallback_url],
    [t('link.ios'), link.ios_url],
    [t('link.android'), link.android_url],
    [t('link.path'), link.path],
    [t('link.campaign'), link.campaign],
    [t('link.tags'), listText(link.tags)],
    [
      'UTM',
      [link.utm_source, link.utm_medium, link.utm_campaign, link.utm_term, link.utm_content]
        .filter(Boolean)
        .join(' · '),
    ],
    [t('links.created'), time(link.created_at, timezone)],
    [t('link.expires'), link.expires_at ? time(link.expires_at, timezone) : null],
    [t('link.max_clicks'), clicksUsed(link)],
    [t('link.password'), link.has_password ? t('link.protected') : null],
  ];
  return (
    <section className="card">
      <header>
        <h2>{t('link.details')}</h2>
      </header>
      <div className="inside sides">
        <dl className="facts">
          {rows.flatMap(([label, value]) =>
            value ? [<dt key={label}>{label}</dt>, <dd key={`${label} `}>{value}</dd>] : [],
          )}
        </dl>
        <div className="stack tight">
          <img className="qr" src={qrOf(link.id, 'svg')} width="120" height="120" alt={t('link.qr')} />
          <span className="row wrap small">
            {t('link.save_qr')}
            <a href={qrOf(link.id, 'svg')} download={`${link.short_code}.svg`}>
              SVG
            </a>
            <a href={qrOf(link.id, 'png', 1024)} download={`${link.short_code}.png`}>
              PNG
            </a>
          </span>
          <button type="button" onClick={() => setDesigns(true)}>
            {t('qr.design')}
          </button>
          {designs ? (
            <Suspense fallback={null}>
              <QrDesigner url={link.url} name={link.short_code} onClose={() => setDesigns(false)} />
            </Suspense>
          ) : null}
        </div>
      </div>
    </section>
  );
}

function Actions({ link }: { readonly link: Link }) {
  const canWrite = useCanWrite(useApps().data?.data.find(({ id }) => id === link.app_id)?.organization_id);
  const [open, setOpen] = useState<'' | 'edit' | 'share' | 'archive' | 'delete'>('');
  const [, go] = useLocation();
  const client = useQueryClient();
  const archive = useMutation({
    mutationFn: () => call('PATCH /links/{id}', { params: { id: link.id }, body: { archived: !link.archived } }),
    onSuccess: async (saved) => {
      await showStored(client, ['link', link.id], saved);
      await client.invalidateQueries({ queryKey: ['links'] });
      setOpen('');
      toast(t(saved.archived ? 'link.now_archived' : 'link.now_active'));
    },
    onError: (error) => toast(failureText(error)),
  });
  const remove = useMutation({
    mutationFn: () => call('DELETE /links/{id}', { params: { id: link.id } }),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['links'] });
      toast(t('link.deleted'));
      go('/links');
    },
    onError: (error) => toast(failureText(error)),
  });
  if (!canWrite) return null;
  return (
    <>
      <button type="button" onClick={() => setOpen('edit')}>
        {t('edit')}
      </button>
      <button type="button" onClick={() => setOpen('share')}>
        {t('share.button')}
      </button>
      <button
        type="button"
        disabled={archive.isPending}
        onClick={() => (link.archived ? archive.mutate() : setOpen('archive'))}
      >
        {t(link.archived ? 'link.restore' : 'link.archive')}
      </button>
      <button type="button" className="danger" onClick={() => setOpen('delete')}>
        {t('delete')}
      </button>
      {open === 'edit' ? <LinkForm link={link} onClose={() => setOpen('')} /> : null}
      {open === 'share' ? (
        <Suspense fallback={null}>
          <Share link={link} onClose={() => setOpen('')} />
        </Suspense>
      ) : null}
      {open === 'archive' ? (
        <Confirm
          title={t('link.archive_title')}
          text={t('link.archive_text')}
          action={t('link.archive')}
          isBusy={archive.isPending}
          onConfirm={() => archive.mutate()}
          onClose={() => setOpen('')}
        />
      ) : null}
      {open === 'delete' ? (
        <Confirm
          title={t('link.delete_title')}
          text={t('link.delete_text')}
          action={t('delete')}
          isBusy={remove.isPending}
          onConfirm={() => remove.mutate()}
          onClose={() => setOpen('')}
        />
      ) : null}
    </>
  );
}
