/** One postback: its status, settings and attempts. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { useView } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { ago, bare, time } from '#dashboard/format.ts';
import { listText } from '#dashboard/list-text.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { Confirm } from '#dashboard/parts/dialog.tsx';
import { Failure, failureText, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { WebhookState } from '#dashboard/parts/webhook-state.tsx';
import { previewOf } from '#dashboard/postback-preview.ts';
import { type Postback, refreshMs, showStored, useApps } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { AttemptList } from './attempt-list.tsx';
import { PostbackForm } from './postback-form.tsx';
import { WebhookReplay } from './webhook-replay.tsx';

export function PostbackPage({ id }: { readonly id: string }) {
  const found = useQuery({
    queryKey: ['postback', id],
    queryFn: () => call('GET /postbacks/{postback_id}', { params: { postback_id: id } }),
    refetchInterval: refreshMs,
  });
  const canWrite = useCanWrite(found.data?.organization_id);
  if (found.isError && !found.data) return <Failure error={found.error} retry={() => void found.refetch()} />;
  if (!found.data) return <Loading lines={8} />;
  const postback = found.data;
  return (
    <div className="stack">
      <div className="head">
        <Link href="/integrations/postbacks">← {t('posts.title')}</Link>
        <h1 className="cut">{postback.description || bare(postback.url)}</h1>
        <WebhookState webhook={postback} />
        {canWrite ? <Actions postback={postback} /> : null}
      </div>
      <Trouble postback={postback} />
      <Details postback={postback} />
      <Attempts postback={postback} canWrite={canWrite} />
    </div>
  );
}

/** Why nothing is sent, or why it may soon be disabled. */
function Trouble({ postback }: { readonly postback: Postback }) {
  const { timezone } = useView();
  const { disabled_reason: reason, disabled_at: at, failing_since: since } = postback;
  if (!postback.enabled) {
    const isRequested = reason === null || reason === 'requested';
    return (
      <p className="notice bad">
        {isRequested ? t('posts.why_requested') : named('hooks.why', reason)}{' '}
        {at ? t('hooks.disabled_at', { time: ago(at) }) : ''} {t('posts.enable_how')}
      </p>
    );
  }
  return since === null ? null : (
    <p className="notice warn">{t('hooks.failing_about', { time: time(since, timezone) })}</p>
  );
}

function Details({ postback }: { readonly postback: Postback }) {
  const { timezone } = useView();
  const apps = useApps().data?.data ?? [];
  const appNames = postback.app_ids?.map((id) => apps.find((app) => app.id === id)?.name ?? id);
  const rows: (readonly [label: string, value: string | null])[] = [
    [t('posts.template'), `${postback.method} ${postback.url}`],
    [t('posts.preview'), `${postback.method} ${previewOf(postback.url).text}`],
    [t('posts.body'), postback.body],
    [t('hooks.events'), postback.events.map((type) => named('posts.event', type)).join(' · ')],
    [t('hooks.names'), postback.event_names && listText(postback.event_names)],
    [t('posts.campaigns'), postback.campaigns ? listText(postback.campaigns) : t('posts.all_campaigns')],
    [t('hooks.apps'), appNames?.join(', ') ?? t('all_apps')],
    [t('links.created'), time(postback.created_at, timezone)],
  ];
  return (
    <section className="card">
      <header>
        <h2>{t('link.details')}</h2>
      </header>
      <div className="inside">
        <dl className="facts">
          {rows.flatMap(([label, value]) =>
            value ? [<dt key={label}>{label}</dt>, <dd key={`${label} `}>{value}</dd>] : [],
          )}
        </dl>
      </div>
    </section>
  );
}

function Attempts({ postback: { id }, canWrite }: { readonly postback: Postback; readonly canWrite: boolean }) {
  const [asks, setAsks] = useState(false);
  const client = useQueryClient();
  const params = { postback_id: id };
  const replay = useMutation({
    mutationFn: (message_id: string) => call('POST /postbacks/{postback_id}/replay', { params, body: { message_id } }),
    onSuccess: async () => {
      toast(t('posts.replayed_one'));
      await client.invalidateQueries({ queryKey: ['postback-attempts', id] });
    },
    onError: (error) => toast(failureText(error)),
  });
  return (
    <section className="card">
      <header>
        <h2>{t('hooks.attempts')}</h2>
        {canWrite ? (
          <button type="button" className="push" onClick={() => setAsks(true)}>
            {t('hooks.replay_range')}
          </button>
        ) : null}
      </header>
      <AttemptList
        queryKey={['postback-attempts', id]}
        load={(query) => call('GET /postbacks/{postback_id}/attempts', { params, query })}
        empty={t('posts.no_attempts')}
        onReplay={canWrite ? (messageId) => replay.mutate(messageId) : null}
      />
      {asks ? (
        <WebhookReplay
          about={t('posts.replay_text')}
          queryKey={['postback-attempts', id]}
          send={(body) => call('POST /postbacks/{postback_id}/replay', { params, body })}
          onClose={() => setAsks(false)}
        />
      ) : null}
    </section>
  );
}

function Actions({ postback }: { readonly postback: Postback }) {
  const [step, setStep] = useState<'' | 'edit' | 'disable' | 'delete'>('');
  const client = useQueryClient();
  const [, go] = useLocation();
  const params = { postback_id: postback.id };
  const onError = (error: Error) => toast(failureText(error));
  const renewed = () => client.invalidateQueries({ queryKey: ['postbacks'] });
  const test = useMutation({
    mutationFn: () => call('POST /postbacks/{postback_id}/test', { params }),
    onSuccess: async () => {
      toast(t('posts.tested'));
      await client.invalidateQueries({ queryKey: ['postback-attempts', postback.id] });
    },
    onError,
  });
  const enable = useMutation({
    mutationFn: (enabled: boolean) => call('PATCH /postbacks/{postback_id}', { params, body: { enabled } }),
    onSuccess: async (saved) => {
      setStep('');
      await showStored(client, ['postback', postback.id], saved);
      toast(t(saved.enabled ? 'posts.now_enabled' : 'posts.now_disabled'));
      await renewed();
    },
    onError,
  });
  const remove = useMutation({
    mutationFn: () => call('DELETE /postbacks/{postback_id}', { params }),
    onSuccess: async () => {
      toast(t('posts.deleted'));
      go('/integrations/postbacks');
      await renewed();
    },
    onError,
  });
  return (
    <span className="row wrap push">
      {postback.enabled ? (
        <button type="button" disabled={test.isPending} onClick={() => test.mutate()}>
          {t('hooks.test')}
        </button>
      ) : null}
      <button type="button" onClick={() => setStep('edit')}>
        {t('edit')}
      </button>
      <button
        type="button"
        disabled={enable.isPending}
        onClick={() => (postback.enabled ? setStep('disable') : enable.mutate(true))}
      >
        {t(postback.enabled ? 'hooks.disable' : 'hooks.enable')}
      </button>
      <button type="button" className="danger" onClick={() => setStep('delete')}>
        {t('delete')}
      </button>
      {step === 'edit' ? <PostbackForm postback={postback} onClose={() => setStep('')} /> : null}
      {step === 'disable' ? (
        <Confirm
          title={t('posts.disable_title')}
          text={t('posts.disable_text')}
          action={t('hooks.disable')}
          isBusy={enable.isPending}
          onConfirm={() => enable.mutate(false)}
          onClose={() => setStep('')}
        />
      ) : null}
      {step === 'delete' ? (
        <Confirm
          title={t('posts.delete_title')}
          text={t('posts.delete_text')}
          action={t('delete')}
          isBusy={remove.isPending}
          onConfirm={() => remove.mutate()}
          onClose={() => setStep('')}
        />
      ) : null}
    </span>
  );
}
