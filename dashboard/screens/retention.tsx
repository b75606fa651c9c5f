/** Retention: how many installs come back, by the time of the install. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useAddress, useView } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { share } from '#dashboard/format.ts';
import { CohortTable } from '#dashboard/parts/cohort-table.tsx';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { GrowthHead } from '#dashboard/parts/growth-head.tsx';
import { t } from '#dashboard/texts/text.ts';

export const cohortSizes = ['day', 'week', 'month', 'all'] as const;
const modes = ['on_day', 'unbounded'] as const;

export function Retention() {
  const { get, set } = useAddress();
  const view = useView();
  const cohort = cohortSizes.find((one) => one === get('cohort')) ?? 'week';
  const mode = modes.find((one) => one === get('mode')) ?? 'on_day';
  const query = { ...view, cohort, mode };
  const found = useQuery({
    queryKey: ['retention', query],
    queryFn: () => call('GET /analytics/retention', { query }),
    placeholderData: keepPreviousData,
  });
  const rows = (found.data?.data ?? []).filter(({ installs }) => installs > 0);
  return (
    <div className="stack">
      <GrowthHead range={found.data ?? null} />
      {found.isError && !found.data ? <Failure error={found.error} retry={() => void found.refetch()} /> : null}
      {found.data || found.isPending ? (
        <section className="card" aria-busy={found.isPlaceholderData}>
          <header>
            <h2>{t('retention.title')}</h2>
            <span className="row push">
              <CohortChoice value={cohort} onChange={(size) => set({ cohort: size === 'week' ? null : size })} />
              <Choice
                label={t('retention.mode')}
                isLabelHidden
                value={mode}
                options={modes.map((one) => [one, t(`retention.${one}`)] as const)}
                onChange={(one) => set({ mode: one === 'on_day' ? null : one })}
              />
            </span>
          </header>
          {found.isPending ? <Loading lines={6} /> : null}
          {found.data && rows.length === 0 ? <Empty title={t('cohort.none')} text={t('cohort.none_text')} /> : null}
          {rows.length > 0 ? (
            <CohortTable
              label={t('retention.title')}
              size={cohort}
              zone={view.timezone}
              cohorts={rows.map(({ start, installs, days }) => ({
                start,
                installs,
                cells: days.map(({ day, rate }) => ({
                  day,
                  shown: rate === null ? '–' : share(rate),
                  heat: rate ?? 0,
                })),
              }))}
            />
          ) : null}
          <p className="caption">{t(`retention.about_${mode}`)}</p>
        </section>
      ) : null}
    </div>
  );
}

type Size = (typeof cohortSizes)[number];

export function CohortChoice(props: { readonly value: Size; readonly onChange: (size: Size) => void }) {
  return (
    <Choice
      label={t('cohort.size')}
      isLabelHidden
      value={props.value}
      options={cohortSizes.map((one) => [one, t(`cohort.${one}`)] as const)}
      onChange={props.onChange}
    />
  );
}
