import { Link, useLocation, useSearch } from 'wouter';
import { type TextKey, t } from '#dashboard/texts/text.ts';

const places: readonly (readonly [path: string, text: TextKey])[] = [
  ['/retention', 'nav.retention'],
  ['/retention/funnel', 'funnel.title'],
  ['/retention/revenue', 'ltv.title'],
];

/** Tabs of the screens about installs over time. Period and filters are kept. */
export function GrowthTabs() {
  const [path] = useLocation();
  const search = useSearch();
  return (
    <nav className="subnav" aria-label={t('nav.retention')}>
      {places.map(([to, text]) => (
        <Link key={to} href={search === '' ? to : `${to}?${search}`} aria-current={path === to ? 'page' : undefined}>
          {t(text)}
        </Link>
      ))}
    </nav>
  );
}
