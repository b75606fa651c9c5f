import { Link, useLocation } from 'wouter';
import { type TextKey, t } from '#dashboard/texts/text.ts';

const places: readonly (readonly [path: string, text: TextKey])[] = [
  ['/integrations', 'hooks.title'],
  ['/integrations/postbacks', 'posts.title'],
  ['/integrations/imports', 'imports.title'],
  ['/integrations/costs', 'costs.title'],
];

/** Tabs of the integrations. */
export function IntegrationTabs() {
  const [path] = useLocation();
  return (
    <nav className="subnav" aria-label={t('nav.integrations')}>
      {places.map(([to, text]) => (
        <Link key={to} href={to} aria-current={path === to ? 'page' : undefined}>
          {t(text)}
        </Link>
      ))}
    </nav>
  );
}
