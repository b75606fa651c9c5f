/** Breakdowns: ranked values of a field, in cards of related fields. A click on a row filters. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { type FilterName, filterValue, useAddress, type View } from '#dashboard/address.ts';
import { type Answer, call } from '#dashboard/api.ts';
import { country, languageName, region } from '#dashboard/format.ts';
import { figureOf, type MetricName, shownFigure } from '#dashboard/metrics.ts';
import { CsvButton } from '#dashboard/parts/csv-button.tsx';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Ranks } from '#dashboard/parts/ranks.tsx';
import { TabCard } from '#dashboard/parts/tabs.tsx';
import { refreshMs } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';

export type Page = Answer<'GET /analytics/page'>;
type Field = Exclude<FilterName, 'app_id'>;
type Row = Answer<'GET /analytics/breakdown'>['data'][number];

/** Cards by the name of their URL parameter; initially, the first field of each is shown. */
const cards = {
  by: ['link_id', 'campaign', 'tag'],
  where: ['country', 'region', 'city', 'platform', 'os', 'language'],
  from: ['referrer', 'browser'],
  what: ['utm_source', 'utm_medium', 'utm_campaign', 'event_name'],
} as const satisfies Record<string, readonly Field[]>;
type CardName = keyof typeof cards;
const cardNames = Object.keys(cards) as CardName[];

const rowsMax = 8;
const exportRowsMax = 2_000;

type Get = (name: string) => string | null;

const chosenIn = (card: CardName, get: Get): Field => cards[card].find((one) => one === get(card)) ?? cards[card][0];

/** The fields that the cards show initially, requested together with the page. */
export const fieldsShown = (get: Get): Field[] => cardNames.map((card) => chosenIn(card, get));

/** Clicks have no event names, and installs no referrers: such a card shows a metric that its field supports. */
function metricFor(field: Field, wanted: MetricName): MetricName {
  if (field === 'event_name') return wanted === 'revenue' ? 'revenue' : 'events';
  if (field === 'referrer' || field === 'browser') return wanted === 'unique_clicks' ? 'unique_clicks' : 'clicks';
  if (field === 'os' || field === 'language') return wanted === 'events' || wanted === 'revenue' ? 'clicks' : wanted;
  return wanted;
}

/** The metric by which the API sorts a field; clicks by default, except for events. */
const sortedBy = (field: Field, metric: MetricName): MetricName =>
  metric === 'clicks' && field === 'event_name' ? 'events' : metric;

export const sortOf = (metric: MetricName): MetricName | undefined => (metric === 'clicks' ? undefined : metric);

interface ListsProps {
  readonly view: View;
  readonly metric: MetricName;
  readonly currency: string;
  /** Undefined while it is loading. */
  readonly page: Page | undefined;
}

export function OverviewLists(props: ListsProps) {
  return (
    <div className="grid2">
      {cardNames.map((card) => (
        <ListCard key={card} card={card} {...props} />
      ))}
    </div>
  );
}

function ListCard({ card, view, metric: wanted, currency, page }: ListsProps & { readonly card: CardName }) {
  const { get, set } = useAddress();
  const field = chosenIn(card, get);
  const metric = metricFor(field, wanted);
  const ready = page?.breakdowns.find(({ by }) => by === field);
  const isOfPage = ready !== undefined && sortedBy(field, wanted) === metric;
  const query = { ...view, by: field, sort_by: metric };
  const found = useQuery({
    queryKey: ['breakdown', query],
    queryFn: async () => (await call('GET /analytics/breakdown', { query: { ...query, limit: rowsMax } })).data,
    placeholderData: keepPreviousData,
    refetchInterval: refreshMs,
    enabled: page !== undefined && !isOfPage,
  });
  const rows = isOfPage ? ready.data : found.data;
  return (
    <TabCard
      tabs={cards[card].map((name) => [name, t(`list.${name}`)] as const)}
      chosen={field}
      onChoose={(name) => set({ [card]: name === cards[card][0] ? null : name })}
      aside={
        <span className="row">
          {t(`metric.${metric}`)}
          <CsvButton
            name={field}
            label={t('export.list', { name: t(`list.${field}`) })}
            columns={csvColumns(field, currency)}
            rowsMax={exportRowsMax}
            load={async (limit, offset) => {
              const { data, pagination } = await call('GET /analytics/breakdown', {
                query: { ...query, limit, offset },
              });
              return { rows: data, hasMore: pagination.has_more };
            }}
          />
        </span>
      }
    >
      <Found
        rows={rows}
        error={found.error}
        retry={() => void found.refetch()}
        hint={rows && isUnplaced(field, rows) ? t('list.no_places') : null}
      >
        {(some) => (
          <Ranks
            rows={some.slice(0, rowsMax).map((row) => {
              const value = figureOf(row, metric, currency);
              return {
                key: row.value ?? '\0none',
                label: labelOf(field, row),
                value,
                shown: shownFigure(value, metric, currency),
                onPick: () => set({ [field]: row.value === null ? '' : filterValue(row.value) }),
              };
            })}
          />
        )}
      </Found>
    </TabCard>
  );
}

/** For these fields, a missing value is unknown; for a campaign or parameter, it was not set. */
const measured: ReadonlySet<Field> = new Set<Field>([
  ...(['country', 'region', 'city'] as const),
  ...(['platform', 'os', 'language', 'browser'] as const),
]);

/** Records have no regions and cities if the installation's GeoIP database has none. */
const isUnplaced = (field: Field, rows: readonly Row[]) =>
  (field === 'region' || field === 'city') && rows.every(({ value }) => value === null);

function labelOf(field: Field, { value, label }: Row): string {
  if (value === null && field === 'link_id') return t('no_link');
  if (value === null) return t(field === 'referrer' ? 'direct' : measured.has(field) ? 'unknown' : 'none');
  if (label) return label;
  if (field === 'country') return country(value);
  if (field === 'region') return region(value);
  if (field === 'language') return languageName(value);
  return field === 'platform' ? named('platform', value) : value;
}

const csvMetrics = ['clicks', 'unique_clicks', 'installs', 'events', 'conversion_rate'] as const;

function csvColumns(
  field: Field,
  currency: string,
): readonly (readonly [title: string, of: (row: Row) => string | number])[] {
  return [
    [field, (row) => row.value ?? ''],
    ...(field === 'link_id' ? [['label', (row: Row) => row.label ?? ''] as const] : []),
    ...csvMetrics.map((name) => [name, (row: Row) => row[name]] as const),
    [`revenue ${currency}`.trim(), (row) => figureOf(row, 'revenue', currency)],
  ];
}

interface FoundProps {
  readonly rows: readonly Row[] | undefined;
  readonly error: unknown;
  readonly retry: () => void;
  /** Explains why none of the rows has a value. */
  readonly hint: string | null;
  readonly children: (rows: readonly Row[]) => ReactNode;
}

function Found({ rows, error, retry, hint, children }: FoundProps): ReactNode {
  if (!rows && error) {
    return (
      <div className="inside">
        <Failure error={error} retry={retry} />
      </div>
    );
  }
  if (!rows) return <Loading lines={6} />;
  if (rows.length === 0) return <p className="ranks none muted">{t('list.nothing')}</p>;
  if (hint !== null) return <p className="ranks none muted">{hint}</p>;
  return children(rows);
}
