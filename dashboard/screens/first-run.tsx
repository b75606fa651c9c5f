/** From an empty installation to the first install: each step says what is missing, and the next one waits for it. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { Link as PageLink } from 'wouter';
import { ApiFailure, call } from '#dashboard/api.ts';
import { draftOf, newLinkOf, withScheme } from '#dashboard/link-draft.ts';
import { useCanWrite, useMe } from '#dashboard/me.ts';
import { Empty, Failure } from '#dashboard/parts/feedback.tsx';
import { Field } from '#dashboard/parts/fields.tsx';
import type { App } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { TryLink, useFirstClick } from './link-ready.tsx';
import { Snippet } from './snippet.tsx';

const lookMs = 1_500;

export function FirstRun() {
  const canWrite = useCanWrite();
  const [app, setApp] = useState<App | null>(null);
  if (!canWrite) return <Empty title={t('apps.none')} text={t('first.viewer')} />;
  return (
    <div className="stack narrow">
      <div className="head">
        <div>
          <h1>{t('first.title')}</h1>
          <p className="muted">{t('first.text')}</p>
        </div>
      </div>
      <Steps app={app} onApp={setApp} />
    </div>
  );
}

function Steps({ app, onApp }: { readonly app: App | null; readonly onApp: (app: App) => void }) {
  const client = useQueryClient();
  const link = useMutation({
    mutationFn: (destination: string) =>
      call('POST /links', { body: newLinkOf({ ...draftOf(null), destination }, app?.id ?? '') }),
  });
  const clicks = useFirstClick(link.data?.id);
  const installs = useInstalls(app?.id, clicks > 0);
  const now = app === null ? 1 : !link.data ? 2 : clicks === 0 ? 3 : 4;
  return (
    <ol className="card steps">
      <Step at={1} now={now} title={t('first.app')}>
        <p className="muted">{t('first.app_text')}</p>
        <NewApp onApp={onApp} />
      </Step>
      <Step at={2} now={now} title={t('first.link')}>
        <p className="muted">{t('first.link_text')}</p>
        <NewLink isBusy={link.isPending} error={link.error} onSubmit={(destination) => link.mutate(destination)} />
      </Step>
      <Step at={3} now={now} title={t('first.tap')}>
        <p className="muted">{t('first.tap_text')}</p>
        {link.data ? <TryLink link={link.data} /> : null}
      </Step>
      <Step at={4} now={installs > 0 ? 5 : now} title={t('first.install')}>
        <Snippet apiKey={app?.api_key ?? ''} />
        <p role="status" className="pulse">
          {t('first.install_waiting')}
        </p>
      </Step>
      {now === 4 ? (
        <li>
          <span />
          <div className="body">
            {installs > 0 ? <span className="tag good">{t('first.install_seen')}</span> : null}
            <PageLink
              href={link.data ? `/links/${link.data.id}` : '/'}
              onClick={() => void client.invalidateQueries({ queryKey: ['apps'] })}
            >
              {t('first.done')}
            </PageLink>
          </div>
        </li>
      ) : null}
    </ol>
  );
}

interface StepProps {
  readonly at: number;
  readonly now: number;
  readonly title: string;
  readonly children: ReactNode;
}

function Step({ at, now, title, children }: StepProps) {
  const state = at < now ? 'done' : at === now ? 'now' : '';
  return (
    <li className={state} aria-current={at === now ? 'step' : undefined}>
      <span className="mark" aria-hidden="true">
        {at < now ? '✓' : at}
      </span>
      <div className="body">
        <h2 className={at > now ? 'muted' : ''}>{title}</h2>
        {at === now ? children : null}
      </div>
    </li>
  );
}

function NewApp({ onApp }: { readonly onApp: (app: App) => void }) {
  const { organizations } = useMe();
  const organization = organizations.find(({ role }) => role !== 'viewer');
  const [name, setName] = useState('');
  const save = useMutation({
    mutationFn: () => call('POST /apps', { body: { name, organization_id: organization?.id } }),
    onSuccess: onApp,
  });
  return (
    <form
      className="row wrap ends"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <Field label={t('app.name')} value={name} onChange={setName} isRequired placeholder="Shop" />
      <button type="submit" className="primary" disabled={save.isPending}>
        {t('app.create')}
      </button>
      {save.isError ? <Failure error={save.error} /> : null}
    </form>
  );
}

interface NewLinkProps {
  readonly isBusy: boolean;
  readonly error: unknown;
  readonly onSubmit: (destination: string) => void;
}

function NewLink({ isBusy, error, onSubmit }: NewLinkProps) {
  const [destination, setDestination] = useState('');
  const fault = error instanceof ApiFailure ? error.fields.get('fallback_url') : undefined;
  return (
    <form
      className="row wrap ends"
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit(withScheme(destination));
      }}
    >
      <Field
        label={t('link.destination')}
        value={destination}
        onChange={setDestination}
        isRequired
        inputMode="url"
        placeholder="https://example.com/sale"
        fault={fault}
      />
      <button type="submit" className="primary" disabled={isBusy}>
        {t('link.create')}
      </button>
      {error && !fault ? <Failure error={error} /> : null}
    </form>
  );
}

function useInstalls(appId: string | undefined, isEnabled: boolean): number {
  const found = useQuery({
    queryKey: ['first-install', appId],
    queryFn: () => call('GET /analytics/overview', { query: { app_id: appId, interval: 'all' } }),
    enabled: isEnabled && appId !== undefined,
    refetchInterval: ({ state }) => ((state.data?.totals.installs ?? 0) > 0 ? false : lookMs),
  });
  return found.data?.totals.installs ?? 0;
}
