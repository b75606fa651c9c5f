import { Link, useLocation } from 'wouter';
import { type TextKey, t } from '#dashboard/texts/text.ts';

const places: readonly (readonly [path: string, text: TextKey])[] = [
  ['/links', 'orphans.links'],
  ['/links/unknown', 'orphans.title'],
  ['/links/utm-templates', 'utm.title'],
];

/** Tabs for links, unknown codes and UTM templates. */
export function LinkTabs() {
  const [path] = useLocation();
  return (
    <nav className="subnav" aria-label={t('nav.links')}>
      {places.map(([to, text]) => (
        <Link key={to} href={to} aria-current={path === to ? 'page' : undefined}>
          {t(text)}
        </Link>
      ))}
    </nav>
  );
}
