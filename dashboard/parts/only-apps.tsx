import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { Checks } from './checks.tsx';

interface OnlyAppsProps {
  readonly organization: string;
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}

/** Selects the apps to which something is limited. Hidden in an organization with only one app. */
export function OnlyApps({ organization, chosen, onChange }: OnlyAppsProps) {
  const apps = (useApps().data?.data ?? []).filter(({ organization_id }) => organization_id === organization);
  if (apps.length < 2 && chosen.length === 0) return null;
  return (
    <Checks
      legend={t('hooks.apps')}
      hint={t('hooks.apps_hint')}
      options={apps.map(({ id, name }) => [id, name] as const)}
      chosen={chosen}
      onChange={onChange}
    />
  );
}
