import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { type FilterName, useAddress, type View } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { bare, country } from '#dashboard/format.ts';
import { type Figures, figureOf, type MetricName, shownFigure } from '#dashboard/metrics.ts';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { type Rank, Ranks } from '#dashboard/parts/ranks.tsx';
import { TabCard } from '#dashboard/parts/tabs.tsx';
import { refreshMs } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';

interface ListProps {
  readonly view: View;
  readonly metric: MetricName;
  readonly currency: string;
  readonly pick: (name: FilterName) => (value: string) => void;
}

const rowsMax = 8;

/** Links and campaigns. */
export function Sources({ view, metric, currency, pick }: ListProps) {
  const { get, set } = useAddress();
  const tab = get('by') === 'campaigns' ? ('campaigns' as const) : ('links' as const);
  const query = { ...view, limit: rowsMax, sort_by: metric };
  const found = useQuery({
    queryKey: ['top', tab, query],
    queryFn: async (): Promise<Rank[]> => {
      if (tab === 'links') {
        const { data } = await call('GET /analytics/top-links', { query });
        return data.map((row) => ranked(row, row.link_id ?? '', row.url ? bare(row.url) : t('no_link'), row.title));
      }
      const { data } = await call('GET /analytics/top-campaigns', { query });
      return data.map((row) => ranked(row, row.campaign, row.campaign));
    },
    placeholderData: keepPreviousData,
    refetchInterval: refreshMs,
  });
  const ranked = (row: Figures, key: string, label: string, title?: string | null): Rank => ({
    key: key || 'none',
    label: title ? (
      <>
        {title} <span className="muted small">{label}</span>
      </>
    ) : (
      label
    ),
    value: figureOf(row, metric, currency),
    shown: shownFigure(figureOf(row, metric, currency), metric, currency),
    onPick: key === '' ? undefined : () => pick(tab === 'links' ? 'link_id' : 'campaign')(key),
  });
  return (
    <TabCard
      tabs={[
        ['links', t('list.links')],
        ['campaigns', t('list.campaigns')],
      ]}
      chosen={tab}
      onChoose={(name) => set({ by: name === 'links' ? null : name })}
      aside={t(`metric.${metric}`)}
    >
      <Found {...found} />
    </TabCard>
  );
}

/** Only counts can be added up over time; other figures show clicks here. */
const additive = new Set<MetricName>(['clicks', 'installs', 'events', 'revenue']);

/** Countries and platforms. */
export function Places({ view, metric: wanted, currency, pick }: ListProps) {
  const { get, set } = useAddress();
  const tab = get('where') === 'platform' ? ('platform' as const) : ('country' as const);
  const metric = additive.has(wanted) ? wanted : 'clicks';
  const query = { ...view, group_by: tab, granularity: 'month' } as const;
  const found = useQuery({
    queryKey: ['places', query, metric, currency],
    queryFn: async (): Promise<Rank[]> => {
      const { data } = await call('GET /analytics/timeseries', { query });
      const sums = new Map<string, { value: number; isRest: boolean }>();
      for (const row of data as readonly (Figures & Record<string, unknown>)[]) {
        const key = typeof row[tab] === 'string' ? row[tab] : '';
        const sum = sums.get(key) ?? { value: 0, isRest: row['is_rest'] === true };
        sum.value += figureOf(row, metric, currency);
        sums.set(key, sum);
      }
      return [...sums]
        .filter(([, { value }]) => value > 0)
        .sort(([, a], [, b]) => Number(a.isRest) - Number(b.isRest) || b.value - a.value)
        .slice(0, rowsMax)
        .map(([key, { value, isRest }]) => ({
          key: isRest ? '\0rest' : key,
          label: isRest
            ? t('rest')
            : key === ''
              ? t('unknown')
              : tab === 'country'
                ? country(key)
                : named('platform', key),
          value,
          shown: shownFigure(value, metric, currency),
          onPick: isRest ? undefined : () => pick(tab)(key),
        }));
    },
    placeholderData: keepPreviousData,
    refetchInterval: refreshMs,
  });
  return (
    <TabCard
      tabs={[
        ['country', t('list.countries')],
        ['platform', t('list.platforms')],
      ]}
      chosen={tab}
      onChoose={(name) => set({ where: name === 'country' ? null : name })}
      aside={t(`metric.${metric}`)}
    >
      <Found {...found} />
    </TabCard>
  );
}

interface FoundProps {
  readonly data: readonly Rank[] | undefined;
  readonly error: unknown;
  readonly refetch: () => unknown;
}

function Found({ data, error, refetch }: FoundProps): ReactNode {
  if (!data && error) {
    return (
      <div className="inside">
        <Failure error={error} retry={() => void refetch()} />
      </div>
    );
  }
  if (!data) return <Loading lines={6} />;
  const rows = data.filter(({ value }) => value > 0);
  if (rows.length === 0) return <p className="ranks none muted">{t('list.nothing')}</p>;
  return <Ranks rows={rows} />;
}
