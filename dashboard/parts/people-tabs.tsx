import { Link, useLocation } from 'wouter';
import { type TextKey, t } from '#dashboard/texts/text.ts';

const places: readonly (readonly [path: string, text: TextKey])[] = [
  ['/members', 'nav.members'],
  ['/members/keys', 'keys2.title'],
  ['/members/audit', 'audit.title'],
];

/** Tabs of the screens about people and permissions. */
export function PeopleTabs() {
  const [path] = useLocation();
  return (
    <nav className="subnav" aria-label={t('people.label')}>
      {places.map(([to, text]) => (
        <Link key={to} href={to} aria-current={path === to ? 'page' : undefined}>
          {t(text)}
        </Link>
      ))}
    </nav>
  );
}
