/** Revenue per install by the days since the install. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useAddress, useView } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { money } from '#dashboard/format.ts';
import { CohortTable } from '#dashboard/parts/cohort-table.tsx';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { GrowthHead } from '#dashboard/parts/growth-head.tsx';
import { t } from '#dashboard/texts/text.ts';
import { CohortChoice, cohortSizes } from './retention.tsx';

export function Ltv() {
  const { get, set } = useAddress();
  const view = useView();
  const cohort = cohortSizes.find((one) => one === get('cohort')) ?? 'week';
  const query = { ...view, cohort };
  const found = useQuery({
    queryKey: ['ltv', query],
    queryFn: () => call('GET /analytics/ltv', { query }),
    placeholderData: keepPreviousData,
  });
  const rows = (found.data?.data ?? []).filter(({ installs }) => installs > 0);
  const currencies = [
    ...new Set(rows.flatMap(({ days }) => days.flatMap(({ revenue }) => revenue.map((one) => one.currency)))),
  ];
  const currency = currencies.find((one) => one === get('currency')) ?? currencies[0] ?? '';
  const amountOf = (amounts: readonly { readonly currency: string; readonly amount: string }[]) =>
    Number(amounts.find((one) => one.currency === currency)?.amount ?? 0);
  const highest = Math.max(1e-9, ...rows.flatMap(({ days }) => days.map(({ per_install }) => amountOf(per_install))));
  return (
    <div className="stack">
      <GrowthHead range={found.data ?? null} />
      {found.isError && !found.data ? <Failure error={found.error} retry={() => void found.refetch()} /> : null}
      {found.data || found.isPending ? (
        <section className="card" aria-busy={found.isPlaceholderData}>
          <header>
            <h2>{t('ltv.title')}</h2>
            <span className="row push">
              {currencies.length > 1 ? (
                <Choice
                  label={t('ltv.currency')}
                  isLabelHidden
                  value={currency}
                  options={currencies.map((one) => [one, one] as const)}
                  onChange={(one) => set({ currency: one })}
                />
              ) : null}
              <CohortChoice value={cohort} onChange={(size) => set({ cohort: size === 'week' ? null : size })} />
            </span>
          </header>
          {found.isPending ? <Loading lines={6} /> : null}
          {found.data && rows.length === 0 ? <Empty title={t('cohort.none')} text={t('cohort.none_text')} /> : null}
          {rows.length > 0 ? (
            <CohortTable
              label={t('ltv.title')}
              size={cohort}
              zone={view.timezone}
              cohorts={rows.map(({ start, installs, days }) => ({
                start,
                installs,
                cells: days.map(({ day, installs: counted, per_install }) => ({
                  day,
                  shown: counted === 0 || currency === '' ? '–' : money(amountOf(per_install), currency),
                  heat: amountOf(per_install) / highest,
                })),
              }))}
            />
          ) : null}
          <p className="caption">{t('ltv.about')}</p>
        </section>
      ) : null}
    </div>
  );
}
