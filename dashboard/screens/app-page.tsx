/** One app: its key, host, platforms and matching settings. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link as PageLink } from 'wouter';
import { call } from '#dashboard/api.ts';
import { ago, whole } from '#dashboard/format.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { Confirm } from '#dashboard/parts/dialog.tsx';
import { CopyButton, Failure, failureText, Loading, toast } from '#dashboard/parts/feedback.tsx';
import type { App } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { AppAssociations } from './app-associations.tsx';
import { AppMigration } from './app-migration.tsx';
import { AppSettings } from './app-settings.tsx';
import { Snippet } from './snippet.tsx';

const pendingMs = 5_000;

export function AppPage({ id }: { readonly id: string }) {
  const app = useQuery({
    queryKey: ['app', id],
    queryFn: () => call('GET /apps/{id}', { params: { id } }),
    refetchInterval: ({ state }) => (state.data?.host_verification.status === 'pending' ? pendingMs : false),
  });
  const canWrite = useCanWrite(app.data?.organization_id);
  if (app.isError && !app.data) return <Failure error={app.error} retry={() => void app.refetch()} />;
  if (!app.data) {
    return (
      <section className="card">
        <Loading lines={8} />
      </section>
    );
  }
  return (
    <div className="stack">
      <div className="head">
        <h1>{app.data.name}</h1>
        <a href={`https://${app.data.host}`} target="_blank" rel="noreferrer" className="muted">
          {app.data.host}
        </a>
      </div>
      <div className="grid2">
        <Key app={app.data} canWrite={canWrite} />
        <Host app={app.data} />
      </div>
      <AppAssociations app={app.data} />
      <AppSettings key={`settings ${id}`} app={app.data} canWrite={canWrite} />
      <AppMigration key={`moving ${id}`} app={app.data} canWrite={canWrite} />
      <section className="card">
        <header>
          <h2>{t('sdk.title')}</h2>
        </header>
        <div className="inside stack">
          <Snippet apiKey={app.data.api_key ?? ''} />
        </div>
      </section>
    </div>
  );
}

function Key({ app, canWrite }: { readonly app: App; readonly canWrite: boolean }) {
  const [asks, setAsks] = useState(false);
  const usage = useKeyUsage(app.id, asks);
  const client = useQueryClient();
  const rotate = useMutation({
    mutationFn: () => call('POST /apps/{id}/rotate-key', { params: { id: app.id } }),
    onSuccess: async () => {
      setAsks(false);
      toast(t('key.rotated'));
      await client.invalidateQueries({ queryKey: ['app', app.id] });
    },
    onError: (error) => toast(failureText(error)),
  });
  return (
    <section className="card">
      <header>
        <h2>{t('key.title')}</h2>
        {canWrite ? (
          <button type="button" className="push" onClick={() => setAsks(true)}>
            {t('key.rotate')}
          </button>
        ) : null}
      </header>
      <div className="inside stack">
        <div className="secret">
          <code>{app.api_key ?? app.api_key_preview}</code>
          {app.api_key ? <CopyButton text={app.api_key} label={t('copy')} /> : null}
        </div>
        <p className="muted small">{t(app.api_key ? 'key.about' : 'key.hidden')}</p>
        <p className="small">
          <PageLink href="/members/keys">{t('key.server')}</PageLink>
        </p>
      </div>
      {asks ? (
        <Confirm
          title={t('key.rotate')}
          text={`${t('key.rotate_text')} ${usage}`}
          action={t('key.rotate_now')}
          isBusy={rotate.isPending}
          onConfirm={() => rotate.mutate()}
          onClose={() => setAsks(false)}
        />
      ) : null}
    </section>
  );
}

/** Shows what a rotation would break: what apps with this key have reported in the last day. */
function useKeyUsage(appId: string, isEnabled: boolean): string {
  const found = useQuery({
    queryKey: ['key-usage', appId],
    queryFn: () => call('GET /analytics/overview', { query: { app_id: appId, interval: '24h' } }),
    enabled: isEnabled,
  });
  if (!found.data) return '';
  const { installs, events } = found.data.totals;
  return installs + events === 0
    ? t('key.unused')
    : t('key.used', { installs: whole(installs), events: whole(events) });
}

function Host({ app }: { readonly app: App }) {
  const { status, record_name, record_value, checked_at, problem } = app.host_verification;
  const isPending = status === 'pending';
  return (
    <section className="card">
      <header>
        <h2>{t('host.title')}</h2>
        <span className={`tag push ${isPending ? 'warn' : 'good'}`}>
          {t(isPending ? 'host.pending' : 'host.verified')}
        </span>
      </header>
      <div className="inside stack">
        {isPending && record_name && record_value ? (
          <>
            <p>{t('host.record')}</p>
            <dl className="facts">
              <dt>{t('host.type')}</dt>
              <dd>TXT</dd>
              <dt>{t('host.name')}</dt>
              <dd className="secret">
                <code>{record_name}</code>
                <CopyButton text={record_name} label={t('copy')} />
              </dd>
              <dt>{t('host.value')}</dt>
              <dd className="secret">
                <code>{record_value}</code>
                <CopyButton text={record_value} label={t('copy')} />
              </dd>
            </dl>
            <p className="small muted" role="status">
              <span className="pulse">
                {checked_at ? t('host.checked', { time: ago(checked_at) }) : t('host.checking')}
                {problem ? ` ${named('host.problem', problem)}` : ''}
              </span>
            </p>
          </>
        ) : (
          <p className="muted">{t('host.served', { host: app.host })}</p>
        )}
      </div>
    </section>
  );
}
