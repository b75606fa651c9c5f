import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { Choice } from './fields.tsx';

/** Selects one app, or all apps (the empty value). */
export function AppChoice({
  value,
  onChange,
}: {
  readonly value: string | null;
  readonly onChange: (id: string | null) => void;
}) {
  const apps = useApps();
  return (
    <Choice
      label={t('filter.app_id')}
      isLabelHidden
      value={value ?? ''}
      options={[['', t('all_apps')] as const, ...(apps.data?.data ?? []).map((app) => [app.id, app.name] as const)]}
      onChange={(id) => onChange(id || null)}
    />
  );
}
