/** Clicks by the rule of a link that decided, and its variant. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useView } from '#dashboard/address.ts';
import { type Answer, call } from '#dashboard/api.ts';
import { bare } from '#dashboard/format.ts';
import type { Link } from '#dashboard/link-draft.ts';
import { figureOf, shownFigure } from '#dashboard/metrics.ts';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Ranks } from '#dashboard/parts/ranks.tsx';
import { refreshMs } from '#dashboard/queries.ts';
import { conditionWords, variantName } from '#dashboard/rule-words.ts';
import { t } from '#dashboard/texts/text.ts';

type Row = Answer<'GET /analytics/breakdown'>['data'][number];

const rowsMax = 20;

export function RuleFigures({ link }: { readonly link: Link }) {
  const { app_id: _app, ...view } = useView();
  const query = { ...view, link_id: link.id, by: 'rule', limit: rowsMax } as const;
  const found = useQuery({
    queryKey: ['breakdown', query],
    queryFn: async () => (await call('GET /analytics/breakdown', { query })).data,
    placeholderData: keepPreviousData,
    refetchInterval: refreshMs,
  });
  return (
    <section className="card" aria-label={t('rules.figures')}>
      <header>
        <h2>{t('rules.figures')}</h2>
        <span className="push muted">{t('metric.clicks')}</span>
      </header>
      {found.data ? (
        <Rows rows={found.data} link={link} zone={view.timezone} />
      ) : found.isError ? (
        <div className="inside">
          <Failure error={found.error} retry={() => void found.refetch()} />
        </div>
      ) : (
        <Loading lines={3} />
      )}
    </section>
  );
}

interface RowsProps {
  readonly rows: readonly Row[];
  readonly link: Link;
  readonly zone: string;
}

function Rows({ rows, link, zone }: RowsProps) {
  const some = rows.filter(({ clicks }) => clicks > 0);
  if (some.length === 0) return <p className="ranks none muted">{t('list.nothing')}</p>;
  return (
    <Ranks
      rows={some.map((row) => {
        const value = figureOf(row, 'clicks', '');
        const shown = shownFigure(value, 'clicks', '');
        return { key: row.value ?? '\0none', label: wordsOf(row, link, zone), value, shown };
      })}
    />
  );
}

function wordsOf({ value, rule_index: index, variant }: Row, { rules }: Link, zone: string): string {
  if (value === null) return t('rules.no_rule');
  const rule = index === undefined ? undefined : rules?.[index];
  // The figures may be older than the link, or the other way round.
  if (index === undefined || rule === undefined) return t('rules.earlier', { id: value });
  const n = index + 1;
  const name = variant === undefined ? null : variantName(variant);
  const place = name === null ? t('rules.number', { n }) : t('rules.number_variant', { n, name });
  const url = variant === undefined ? rule.url : rule.variants?.[variant]?.url;
  return `${place}: ${conditionWords(rule, zone).join(' · ')} → ${bare(url ?? '')}`;
}
