/** The login, or the screens behind it. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type ComponentType, Suspense, useEffect, useMemo, useState } from 'react';
import { Route, Switch, useLocation } from 'wouter';
import { ApiFailure, call } from './api.ts';
import { type Me, MeContext, meOf } from './me.ts';
import { Empty, Failure, Loading, Toasts } from './parts/feedback.tsx';
import { ScreenBoundary, screen } from './parts/screen-boundary.tsx';
import { Login } from './screens/login.tsx';
import { Overview } from './screens/overview.tsx';
import { onSessionChange } from './session-changes.ts';
import { Shell } from './shell.tsx';
import { t } from './texts/text.ts';

const Links = screen(async () => ({ default: (await import('./screens/links.tsx')).Links }));
const LinkPage = screen(async () => ({ default: (await import('./screens/link-page.tsx')).LinkPage }));
const OrphanVisits = screen(async () => ({ default: (await import('./screens/orphan-visits.tsx')).OrphanVisits }));
const UtmTemplates = screen(async () => ({ default: (await import('./screens/utm-templates.tsx')).UtmTemplates }));
const Apps = screen(async () => ({ default: (await import('./screens/apps.tsx')).Apps }));
const AppPage = screen(async () => ({ default: (await import('./screens/app-page.tsx')).AppPage }));
const Debugger = screen(async () => ({ default: (await import('./screens/debugger.tsx')).Debugger }));
const MatchPage = screen(async () => ({ default: (await import('./screens/match-page.tsx')).MatchPage }));
const Members = screen(async () => ({ default: (await import('./screens/members.tsx')).Members }));
const Quality = screen(async () => ({ default: (await import('./screens/quality.tsx')).Quality }));
const Trust = screen(async () => ({ default: (await import('./screens/trust.tsx')).Trust }));
const Retention = screen(async () => ({ default: (await import('./screens/retention.tsx')).Retention }));
const Funnel = screen(async () => ({ default: (await import('./screens/funnel.tsx')).Funnel }));
const Ltv = screen(async () => ({ default: (await import('./screens/ltv.tsx')).Ltv }));
const ServerKeys = screen(async () => ({ default: (await import('./screens/server-keys.tsx')).ServerKeys }));
const Webhooks = screen(async () => ({ default: (await import('./screens/webhooks.tsx')).Webhooks }));
const Postbacks = screen(async () => ({ default: (await import('./screens/postbacks.tsx')).Postbacks }));
const PostbackPage = screen(async () => ({ default: (await import('./screens/postback-page.tsx')).PostbackPage }));
const Imports = screen(async () => ({ default: (await import('./screens/imports.tsx')).Imports }));
const Costs = screen(async () => ({ default: (await import('./screens/costs.tsx')).Costs }));
const ImportPage = screen(async () => ({ default: (await import('./screens/import-page.tsx')).ImportPage }));
const WebhookPage = screen(async () => ({ default: (await import('./screens/webhook-page.tsx')).WebhookPage }));
const AuditLog = screen(async () => ({ default: (await import('./screens/audit-log.tsx')).AuditLog }));
const Account = screen(async () => ({ default: (await import('./screens/account.tsx')).Account }));

/** Screens that links in mails open, with or without a login. */
const doors: Readonly<Record<string, ComponentType<{ readonly me: Me | null }>>> = {
  '/invitation': screen(async () => ({ default: (await import('./screens/invitation.tsx')).Invitation })),
  '/password-reset': screen(async () => ({ default: (await import('./screens/password-reset.tsx')).PasswordReset })),
};

export function App() {
  const [path] = useLocation();
  const me = useQuery({
    queryKey: ['me'],
    queryFn: () =>
      call('GET /me').catch((error: unknown) => {
        if (error instanceof ApiFailure && error.status === 401) return null;
        throw error;
      }),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const [hadSession, setHadSession] = useState(false);
  useEffect(() => {
    if (me.data) setHadSession(true);
  }, [me.data]);
  // Another tab has logged in or out, so this one asks again who is logged in.
  const { refetch } = me;
  useEffect(() => onSessionChange(() => void refetch()), [refetch]);
  const who = useMemo(() => (me.data ? meOf(me.data) : null), [me.data]);
  // Another user or organization, selected here or in another tab: all cached data of the previous one is dropped.
  const client = useQueryClient();
  const viewer = who ? `${who.user.id} ${who.organization_id ?? ''}` : '';
  const [shown, setShown] = useState(viewer);
  if (shown !== viewer) {
    client.removeQueries({ predicate: ({ queryKey: [first] }) => first !== 'me' && first !== 'invitation' });
    setShown(viewer);
  }
  if (me.isPending) return <Waiting />;
  if (me.isError) {
    return (
      <main className="door">
        <Failure error={me.error} retry={() => void me.refetch()} />
      </main>
    );
  }
  const Door = doors[path];
  if (Door) {
    return (
      <ScreenBoundary>
        <Suspense fallback={<Waiting />}>
          <Door me={who} />
        </Suspense>
      </ScreenBoundary>
    );
  }
  if (who === null) return <Login hasEnded={hadSession} />;
  return (
    <MeContext value={who}>
      <Shell key={viewer}>
        <ScreenBoundary>
          <Suspense fallback={<Loading />}>
            <Switch>
              {who.organizations.length === 0 && path !== '/account' ? (
                <Route>
                  <Empty title={t('organization.none')} text={t('organization.none_text')} />
                </Route>
              ) : null}
              <Route path="/" component={Overview} />
              <Route path="/links" component={Links} />
              <Route path="/links/unknown" component={OrphanVisits} />
              <Route path="/links/utm-templates" component={UtmTemplates} />
              <Route path="/links/:id">{({ id }) => <LinkPage key={id} id={id} />}</Route>
              <Route path="/apps" component={Apps} />
              <Route path="/apps/:id">{({ id }) => <AppPage key={id} id={id} />}</Route>
              <Route path="/debugger" component={Debugger} />
              <Route path="/debugger/:id">{({ id }) => <MatchPage key={id} id={id} />}</Route>
              <Route path="/quality" component={Quality} />
              <Route path="/retention" component={Retention} />
              <Route path="/retention/funnel" component={Funnel} />
              <Route path="/retention/revenue" component={Ltv} />
              <Route path="/trust" component={Trust} />
              <Route path="/members" component={Members} />
              <Route path="/members/keys" component={ServerKeys} />
              <Route path="/members/audit" component={AuditLog} />
              <Route path="/integrations" component={Webhooks} />
              <Route path="/integrations/postbacks" component={Postbacks} />
              <Route path="/integrations/postbacks/:id">{({ id }) => <PostbackPage key={id} id={id} />}</Route>
              <Route path="/integrations/costs" component={Costs} />
              <Route path="/integrations/imports" component={Imports} />
              <Route path="/integrations/imports/:id">{({ id }) => <ImportPage key={id} id={id} />}</Route>
              <Route path="/integrations/webhooks/:id">{({ id }) => <WebhookPage key={id} id={id} />}</Route>
              <Route path="/account" component={Account} />
              <Route>
                <Empty title={t('absent.title')} text={t('absent.text')} />
              </Route>
            </Switch>
          </Suspense>
        </ScreenBoundary>
      </Shell>
      <Toasts />
    </MeContext>
  );
}

function Waiting() {
  return (
    <main className="door">
      <Loading lines={3} />
    </main>
  );
}
