/**
 * The setup guide from an empty installation to the first install: each step says what is missing, and the next one
 * waits for it.
 */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { Link as PageLink } from 'wouter';
import { ApiFailure, call } from '#dashboard/api.ts';
import { draftOf, newLinkOf, withScheme } from '#dashboard/link-draft.ts';
import { useLive } from '#dashboard/live.ts';
import { useCanWrite, useMe } from '#dashboard/me.ts';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Field } from '#dashboard/parts/fields.tsx';
import { type App, showStored } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { TryLink, useFirstClick } from './link-ready.tsx';
import { Snippet } from './snippet.tsx';

const lookMs = 1_500;

/** The app that the guide started with, so that it continues after the page was left or reloaded. */
const storageKey = 'signpost-first-app';

export function useGuide() {
  const [appId, setAppId] = useState(() => localStorage.getItem(storageKey));
  return {
    appId,
    onApp: ({ id }: App) => {
      localStorage.setItem(storageKey, id);
      setAppId(id);
    },
    onEnd: () => {
      localStorage.removeItem(storageKey);
      setAppId(null);
    },
  };
}

export function FirstRun(guide: ReturnType<typeof useGuide>) {
  const canWrite = useCanWrite();
  if (!canWrite) return <Empty title={t('apps.none')} text={t('first.viewer')} />;
  return (
    <div className="stack narrow">
      <div className="head">
        <div>
          <h1>{t('first.title')}</h1>
          <p className="muted">{t('first.text')}</p>
        </div>
        {guide.appId === null ? null : (
          <button type="button" className="plain push" onClick={guide.onEnd}>
            {t('first.skip')}
          </button>
        )}
      </div>
      <Steps {...guide} />
    </div>
  );
}

function Steps({ appId, onApp, onEnd }: ReturnType<typeof useGuide>) {
  const client = useQueryClient();
  const app = useQuery({
    queryKey: ['app', appId],
    queryFn: () => call('GET /apps/{id}', { params: { id: appId ?? '' } }),
    enabled: appId !== null,
  }).data;
  const query = { app_id: appId ?? '', limit: 1 };
  const found = useQuery({
    queryKey: ['first-link', appId],
    queryFn: async () => (await call('GET /links', { query })).data[0] ?? null,
    enabled: appId !== null,
  });
  const create = useMutation({
    mutationFn: (destination: string) =>
      call('POST /links', { body: newLinkOf({ ...draftOf(null), destination }, appId ?? '') }),
    onSuccess: (made) => showStored(client, ['first-link', appId], made),
  });
  const link = found.data ?? undefined;
  const isTapped = useFirstClick(link?.id);
  const isInstalled = useInstall(app?.id, isTapped);
  const now = appId === null ? 1 : !link ? 2 : !isTapped ? 3 : 4;
  if (appId !== null && found.isPending) return <Loading />;
  return (
    <ol className="card steps">
      <Step at={1} now={now} title={t('first.app')}>
        <p className="muted">{t('first.app_text')}</p>
        <NewApp onApp={onApp} />
      </Step>
      <Step at={2} now={now} title={t('first.link')}>
        <p className="muted">{t('first.link_text')}</p>
        <NewLink isBusy={create.isPending} error={create.error} onSubmit={(to) => create.mutate(to)} />
      </Step>
      <Step at={3} now={now} title={t('first.tap')} seen={t('tap.seen')}>
        <p className="muted">{t('first.tap_text')}</p>
        {link ? <TryLink link={link} /> : null}
      </Step>
      <Step at={4} now={isInstalled ? 5 : now} title={t('first.install')} seen={t('first.install_seen')}>
        <Snippet apiKey={app?.api_key ?? ''} />
        <p role="status" className="pulse">
          {t('first.install_waiting')}
        </p>
      </Step>
      {now === 4 ? (
        <li>
          <span />
          <div className="body">
            <PageLink href={link ? `/links/${link.id}` : '/'} onClick={onEnd}>
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
  /** Text for the completed step. */
  readonly seen?: string;
  readonly children: ReactNode;
}

function Step({ at, now, title, seen, children }: StepProps) {
  const state = at < now ? 'done' : at === now ? 'now' : '';
  return (
    <li className={state} aria-current={at === now ? 'step' : undefined}>
      <span className="mark" aria-hidden="true">
        {at < now ? '✓' : at}
      </span>
      <div className="body">
        <h2 className={at > now ? 'muted' : ''}>{title}</h2>
        {at === now ? children : null}
        {seen ? <p role="status">{at < now ? <span className="tag good">{seen}</span> : null}</p> : null}
      </div>
    </li>
  );
}

function NewApp({ onApp }: { readonly onApp: (app: App) => void }) {
  const { organizations } = useMe();
  const organization = organizations.find(({ role }) => role !== 'viewer');
  const [name, setName] = useState('');
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: () => call('POST /apps', { body: { name, organization_id: organization?.id } }),
    onSuccess: async (app) => {
      onApp(app);
      await client.invalidateQueries({ queryKey: ['apps'] });
    },
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

function useInstall(appId: string | undefined, isEnabled: boolean): boolean {
  const [seenId, setSeenId] = useState('');
  const found = useQuery({
    queryKey: ['first-install', appId],
    queryFn: () => call('GET /analytics/overview', { query: { app_id: appId, interval: 'all' } }),
    enabled: appId !== undefined && isEnabled,
    staleTime: 0,
    refetchInterval: ({ state }) => ((state.data?.totals.installs ?? 0) > 0 ? false : lookMs),
  });
  const isSeen = appId !== undefined && (seenId === appId || (found.data?.totals.installs ?? 0) > 0);
  useLive(appId === undefined || !isEnabled || isSeen ? null : { app_id: appId }, ({ kind }) => {
    if (kind === 'install') setSeenId(appId ?? '');
  });
  return isSeen;
}
