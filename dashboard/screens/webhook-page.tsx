/** One webhook: its status, settings and delivery attempts. */
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
import { refreshMs, showStored, useApps, type Webhook } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { WebhookDeliveries } from './webhook-deliveries.tsx';
import { SecretReady, WebhookForm } from './webhook-form.tsx';

export function WebhookPage({ id }: { readonly id: string }) {
  const found = useQuery({
    queryKey: ['webhook', id],
    queryFn: () => call('GET /webhooks/{webhook_id}', { params: { webhook_id: id } }),
    refetchInterval: refreshMs,
  });
  const canWrite = useCanWrite(found.data?.organization_id);
  if (found.isError && !found.data) return <Failure error={found.error} retry={() => void found.refetch()} />;
  if (!found.data) return <Loading lines={8} />;
  const webhook = found.data;
  return (
    <div className="stack">
      <div className="head">
        <Link href="/integrations">← {t('hooks.title')}</Link>
        <h1 className="cut">{bare(webhook.url)}</h1>
        <WebhookState webhook={webhook} />
        {canWrite ? <Actions webhook={webhook} /> : null}
      </div>
      <Trouble webhook={webhook} />
      <Details webhook={webhook} />
      <WebhookDeliveries webhook={webhook} canWrite={canWrite} />
    </div>
  );
}

/** Why nothing is sent, or why it may soon be disabled. */
function Trouble({ webhook }: { readonly webhook: Webhook }) {
  const { timezone } = useView();
  const { disabled_reason: reason, disabled_at: at, failing_since: since } = webhook;
  if (!webhook.enabled) {
    return (
      <p className="notice bad">
        {named('hooks.why', reason ?? 'requested')} {at ? t('hooks.disabled_at', { time: ago(at) }) : ''}{' '}
        {t('hooks.enable_how')}
      </p>
    );
  }
  return since === null ? null : (
    <p className="notice warn">{t('hooks.failing_about', { time: time(since, timezone) })}</p>
  );
}

function Details({ webhook }: { readonly webhook: Webhook }) {
  const { timezone } = useView();
  const apps = useApps().data?.data ?? [];
  const appNames = webhook.app_ids?.map((id) => apps.find((app) => app.id === id)?.name ?? id);
  const until = webhook.previous_secret_until;
  const rows: (readonly [label: string, value: string | null])[] = [
    [t('hooks.url'), webhook.url],
    [t('hooks.description'), webhook.description],
    [t('hooks.events'), webhook.events.map((type) => named('hooks.event', type)).join(' · ')],
    [t('hooks.names'), webhook.event_names && listText(webhook.event_names)],
    [t('hooks.apps'), appNames?.join(', ') ?? t('all_apps')],
    [t('hooks.old_secret'), until ? t('hooks.old_secret_until', { time: time(until, timezone) }) : null],
    [t('links.created'), time(webhook.created_at, timezone)],
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

type Step = '' | 'edit' | 'disable' | 'rotate' | 'delete';

function Actions({ webhook }: { readonly webhook: Webhook }) {
  const [step, setStep] = useState<Step>('');
  const client = useQueryClient();
  const params = { webhook_id: webhook.id };
  const test = useMutation({
    mutationFn: () => call('POST /webhooks/{webhook_id}/test', { params }),
    onSuccess: async () => {
      toast(t('hooks.tested'));
      await client.invalidateQueries({ queryKey: ['webhook-deliveries', webhook.id] });
    },
    onError: (error) => toast(failureText(error)),
  });
  const enable = useMutation({
    mutationFn: (enabled: boolean) => call('PATCH /webhooks/{webhook_id}', { params, body: { enabled } }),
    onSuccess: async (saved) => {
      setStep('');
      await showStored(client, ['webhook', webhook.id], saved);
      toast(t(saved.enabled ? 'hooks.now_enabled' : 'hooks.now_disabled'));
      await client.invalidateQueries({ queryKey: ['webhooks'] });
    },
    onError: (error) => toast(failureText(error)),
  });
  return (
    <span className="row wrap push">
      {webhook.enabled ? (
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
        onClick={() => (webhook.enabled ? setStep('disable') : enable.mutate(true))}
      >
        {t(webhook.enabled ? 'hooks.disable' : 'hooks.enable')}
      </button>
      <button type="button" onClick={() => setStep('rotate')}>
        {t('hooks.rotate')}
      </button>
      <button type="button" className="danger" onClick={() => setStep('delete')}>
        {t('delete')}
      </button>
      {step === 'edit' ? <WebhookForm webhook={webhook} onClose={() => setStep('')} /> : null}
      {step === 'disable' ? (
        <Confirm
          title={t('hooks.disable_title')}
          text={t('hooks.disable_text')}
          action={t('hooks.disable')}
          isBusy={enable.isPending}
          onConfirm={() => enable.mutate(false)}
          onClose={() => setStep('')}
        />
      ) : null}
      {step === 'rotate' ? <Rotate webhook={webhook} onClose={() => setStep('')} /> : null}
      {step === 'delete' ? <Remove webhook={webhook} onClose={() => setStep('')} /> : null}
    </span>
  );
}

interface StepProps {
  readonly webhook: Webhook;
  readonly onClose: () => void;
}

const overlapHours = 24;

function Rotate({ webhook, onClose }: StepProps) {
  const client = useQueryClient();
  const rotate = useMutation({
    mutationFn: () =>
      call('POST /webhooks/{webhook_id}/rotate-secret', {
        params: { webhook_id: webhook.id },
        body: { overlap_hours: overlapHours },
      }),
    onSuccess: () => client.invalidateQueries({ queryKey: ['webhook', webhook.id] }),
    onError: (error) => toast(failureText(error)),
  });
  if (rotate.data) {
    const note = t('hooks.rotate_text', { hours: overlapHours });
    return <SecretReady title={t('hooks.rotated')} secret={rotate.data.secret} note={note} onClose={onClose} />;
  }
  return (
    <Confirm
      title={t('hooks.rotate_title')}
      text={`${t('hooks.rotate_text', { hours: overlapHours })} ${webhook.previous_secret_until ? t('hooks.rotate_again') : ''}`}
      action={t('hooks.rotate')}
      isBusy={rotate.isPending}
      onConfirm={() => rotate.mutate()}
      onClose={onClose}
    />
  );
}

function Remove({ webhook, onClose }: StepProps) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const remove = useMutation({
    mutationFn: () => call('DELETE /webhooks/{webhook_id}', { params: { webhook_id: webhook.id } }),
    onSuccess: async () => {
      toast(t('hooks.deleted'));
      go('/integrations');
      await client.invalidateQueries({ queryKey: ['webhooks'] });
    },
    onError: (error) => toast(failureText(error)),
  });
  return (
    <Confirm
      title={t('hooks.delete_title')}
      text={t('hooks.delete_text')}
      action={t('delete')}
      isBusy={remove.isPending}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    />
  );
}
