/** The frame of every screen: navigation, account, and global shortcuts. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { call } from './api.ts';
import { time } from './format.ts';
import { useMe } from './me.ts';
import { Dialog } from './parts/dialog.tsx';
import { Choice } from './parts/fields.tsx';
import { Brand, Icon, type IconName } from './parts/icons.tsx';
import { OrganizationChoice } from './parts/organization-choice.tsx';
import { announceSession } from './session-changes.ts';
import { onKeys } from './shortcuts.ts';
import { chooseLanguage, language, languages, type TextKey, t } from './texts/text.ts';
import { switchTheme } from './theme.ts';

const places: readonly (readonly [path: string, text: TextKey, icon: IconName])[] = [
  ['/', 'nav.overview', 'overview'],
  ['/links', 'nav.links', 'links'],
  ['/apps', 'nav.apps', 'apps'],
  ['/retention', 'nav.retention', 'retention'],
  ['/debugger', 'nav.debugger', 'debugger'],
  ['/quality', 'nav.quality', 'quality'],
  ['/trust', 'nav.trust', 'trust'],
  ['/integrations', 'nav.integrations', 'integrations'],
  ['/members', 'nav.members', 'members'],
];

export function Shell({ children }: { readonly children: ReactNode }) {
  const [path, go] = useLocation();
  const [helps, setHelps] = useState(false);
  useEffect(
    () =>
      onKeys({
        '?': () => setHelps(true),
        c: () => go('/links?new=1'),
        '/': () => {
          const search = document.querySelector<HTMLInputElement>('input[type=search]');
          if (search) search.focus();
          else go('/links?find=1');
        },
      }),
    [go],
  );
  // On a narrow screen the navigation scrolls sideways.
  const nav = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the current item depends on the path
  useEffect(() => {
    nav.current?.querySelector('[aria-current=page]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [path]);
  return (
    <div className="shell">
      <header className="side">
        <Brand />
        <nav className="nav" ref={nav} aria-label={t('nav.label')}>
          {places.map(([to, text, icon]) => {
            const isHere = to === '/' ? path === '/' : path.startsWith(to);
            return (
              <Link key={to} href={to} aria-current={isHere ? 'page' : undefined}>
                <Icon name={icon} />
                {t(text)}
              </Link>
            );
          })}
        </nav>
        <Account />
      </header>
      <main className="main">
        <Offline />
        <Held />
        {children}
      </main>
      {helps ? <Shortcuts onClose={() => setHelps(false)} /> : null}
    </div>
  );
}

function Account() {
  const { user } = useMe();
  const client = useQueryClient();
  const leave = useMutation({
    mutationFn: () => call('DELETE /session'),
    onSuccess: () => {
      client.clear();
      announceSession();
      location.assign('/');
    },
  });
  return (
    <div className="account">
      <Link href="/account" className="who me cut small">
        <span className="cut">{user.name || user.email}</span>
        {user.name ? <span className="muted cut">{user.email}</span> : null}
      </Link>
      <div className="who">
        <OrganizationChoice />
        <Choice
          label={t('language')}
          isLabelHidden
          value={language}
          options={languages}
          onChange={(value) => chooseLanguage(value)}
        />
      </div>
      <div className="row">
        <Link href="/account" className="button plain icon" aria-label={t('account.title')} title={t('account.title')}>
          <Icon name="person" />
        </Link>
        <button type="button" className="plain icon" aria-label={t('theme')} title={t('theme')} onClick={switchTheme}>
          <Icon name="sun" />
        </button>
        <button type="button" className="plain" disabled={leave.isPending} onClick={() => leave.mutate()}>
          <Icon name="leave" />
          {t('logout')}
        </button>
      </div>
    </div>
  );
}

/** In a restored copy, for owners. */
function Held() {
  const { outbound_held_since: since } = useMe();
  if (since === null) return null;
  return (
    <div className="notice warn head" role="status">
      {t('outbound.held', { since: time(since, new Intl.DateTimeFormat().resolvedOptions().timeZone) })}
    </div>
  );
}

function Offline() {
  const [isOnline, setOnline] = useState(navigator.onLine);
  useEffect(() => {
    const update = () => setOnline(navigator.onLine);
    addEventListener('online', update);
    addEventListener('offline', update);
    return () => {
      removeEventListener('online', update);
      removeEventListener('offline', update);
    };
  }, []);
  if (isOnline) return null;
  return (
    <div className="notice warn head" role="status">
      {t('failure.offline')}
    </div>
  );
}

const keys: readonly (readonly [key: string, text: TextKey])[] = [
  ['d', 'keys.day'],
  ['w', 'keys.week'],
  ['m', 'keys.month'],
  ['y', 'keys.year'],
  ['←  →', 'keys.shift'],
  ['Esc', 'keys.clear'],
  ['/', 'keys.search'],
  ['c', 'keys.create'],
  ['?', 'keys.help'],
];

function Shortcuts({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title={t('keys.title')} onClose={onClose}>
      <dl className="facts fields">
        {keys.map(([key, text]) => (
          <div key={key} className="row">
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{t(text)}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
