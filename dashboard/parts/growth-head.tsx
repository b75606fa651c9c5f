/** Title, app, period and filters of the screens about cohorts. */
import { useAddress, useView } from '#dashboard/address.ts';
import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { AppChoice } from './app-choice.tsx';
import { GrowthTabs } from './growth-tabs.tsx';
import { FilterChips, PeriodBar } from './period-bar.tsx';

export function GrowthHead({ range }: { readonly range: { readonly start: string; readonly end: string } | null }) {
  const { get, set } = useAddress();
  const { timezone } = useView();
  const apps = useApps().data?.data ?? [];
  return (
    <>
      <div className="head">
        <h1>{t('nav.retention')}</h1>
        {apps.length > 1 ? <AppChoice value={get('app_id') ?? null} onChange={(app_id) => set({ app_id })} /> : null}
        <PeriodBar range={range} zone={timezone} />
      </div>
      <GrowthTabs />
      <FilterChips names={new Map(apps.map(({ id, name }) => [id, name]))} />
    </>
  );
}
