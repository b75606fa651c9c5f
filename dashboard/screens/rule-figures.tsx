/** Statistics by rule and variant of a link. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useAddress, useView } from '#dashboard/address.ts';
import { type Answer, call } from '#dashboard/api.ts';
import { bare } from '#dashboard/format.ts';
import type { Link } from '#dashboard/link-draft.ts';
import { figureOf, mainCurrency, shownFigure } from '#dashboard/metrics.ts';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Ranks } from '#dashboard/parts/ranks.tsx';
import { TabCard } from '#dashboard/parts/tabs.tsx';
import { refreshMs } from '#dashboard/queries.ts';
import { conditionWords, variantName } from '#dashboard/rule-words.ts';
import { t } from '#dashboard/texts/text.ts';

type Row = Answer<'GET /analytics/breakdown'>['data'][number];

const rowsMax = 20;
const metrics = ['clicks', 'installs', 'conversion_rate', 'revenue'] as const;
type Metric = (typeof metrics)[number];

export function RuleFigures({ link }: { readonly link: Link }) {
  const { app_id: _app, ...view } = useView();
  const { get, set } = useAddress();
  const metric = metrics.find((one) => one === get('rules')) ?? 'clicks';
  const query = { ...view, link_id: link.id, by: 'rule', sort_by: metric, limit: rowsMax } as const;
  const found = useQuery({
    queryKey: ['breakdown', query],
    queryFn: async () => (await call('GET /analytics/breakdown', { query })).data,
    placeholderData: keepPreviousData,
    refetchInterval: refreshMs,
  });
  return (
    <TabCard
      tabs={metrics.map((name) => [name, t(`metric.${name}`)] as const)}
      chosen={metric}
      onChoose={(name) => set({ rules: name === 'clicks' ? null : name })}
      aside={t('rules.figures')}
    >
      {found.data ? (
        <Rows rows={found.data} metric={metric} link={link} zone={view.timezone} />
      ) : found.isError ? (
        <div className="inside">
          <Failure error={found.error} retry={() => void found.refetch()} />
        </div>
      ) : (
        <Loading lines={3} />
      )}
    </TabCard>
  );
}

interface RowsProps {
  readonly rows: readonly Row[];
  readonly metric: Metric;
  readonly link: Link;
  readonly zone: string;
}

function Rows({ rows, metric, link, zone }: RowsProps) {
  const currency = mainCurrency({ revenue: rows.flatMap(({ revenue }) => revenue) });
  const some = rows.filter(({ clicks, installs, events }) => clicks + installs + events > 0);
  if (some.length === 0) return <p className="ranks none muted">{t('list.nothing')}</p>;
  return (
    <Ranks
      rows={some.map((row) => {
        const value = figureOf(row, metric, currency);
        const shown = shownFigure(value, metric, currency);
        return { key: row.value ?? '\0none', label: wordsOf(row, link, zone), value, shown };
      })}
    />
  );
}

function wordsOf({ value, rule_index: index, variant }: Row, { rules }: Link, zone: string): string {
  if (value === null) return t('rules.no_rule');
  const rule = index === undefined ? undefined : rules?.[index];
  // The statistics may be older than the link, or newer.
  if (index === undefined || rule === undefined) return t('rules.earlier', { id: value });
  const n = index + 1;
  const name = variant === undefined ? null : variantName(variant);
  const place = name === null ? t('rules.number', { n }) : t('rules.number_variant', { n, name });
  const url = variant === undefined ? rule.url : rule.variants?.[variant]?.url;
  return `${place}: ${conditionWords(rule, zone).join(' · ')} → ${bare(url ?? '')}`;
}
