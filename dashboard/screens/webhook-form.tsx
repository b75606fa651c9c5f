/** Creates a webhook, whose secret is shown once, or edits one. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, type Body, call } from '#dashboard/api.ts';
import { changedFields } from '#dashboard/form-changes.ts';
import { withScheme } from '#dashboard/link-draft.ts';
import { listOf, listText } from '#dashboard/list-text.ts';
import { useMe } from '#dashboard/me.ts';
import { Checks } from '#dashboard/parts/checks.tsx';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { CopyButton, Failure, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { OnlyApps } from '#dashboard/parts/only-apps.tsx';
import type { Webhook } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';

type EventType = Body<'POST /webhooks'>['events'][number];

const eventTypes = [
  'link.created',
  'link.updated',
  'link.deleted',
  'click.batch',
  'install.recorded',
  'install.attributed',
  'event.recorded',
  'conversion.recorded',
  'match.refused',
  'import.finished',
  'audit.failed',
  'endpoint.disabled',
] as const satisfies readonly EventType[];

interface WebhookFormProps {
  /** Absent: creates a new one. */
  readonly webhook?: Webhook;
  readonly onClose: () => void;
}

const draftOf = (webhook: Webhook | undefined) => ({
  url: webhook?.url ?? '',
  description: webhook?.description ?? '',
  names: listText(webhook?.event_names ?? []),
  events: (webhook?.events ?? []) as readonly EventType[],
  appIds: (webhook?.app_ids ?? []) as readonly string[],
});
type Draft = ReturnType<typeof draftOf>;

const hasNames = ({ events }: Draft) => events.includes('event.recorded');

function bodyOf(draft: Draft) {
  return {
    url: withScheme(draft.url),
    description: draft.description,
    events: [...draft.events],
    event_names: hasNames(draft) ? listOf(draft.names) : null,
    app_ids: draft.appIds.length === 0 ? null : [...draft.appIds],
  };
}

export function WebhookForm({ webhook, onClose }: WebhookFormProps) {
  const { organizations } = useMe();
  const writable = organizations.filter(({ role }) => role !== 'viewer');
  const [organization, setOrganization] = useState(webhook?.organization_id ?? writable[0]?.id ?? '');
  const [before] = useState(() => draftOf(webhook));
  const [draft, setDraft] = useState(before);
  const change = (part: Partial<Draft>) => setDraft((now) => ({ ...now, ...part }));
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: async () => {
      const body = bodyOf(draft);
      if (!webhook) return (await call('POST /webhooks', { body: { ...body, organization_id: organization } })).secret;
      const changes = changedFields(body, bodyOf(before));
      if (Object.keys(changes).length > 0)
        await call('PATCH /webhooks/{webhook_id}', { params: { webhook_id: webhook.id }, body: changes });
      return null;
    },
    onSuccess: async () => {
      await Promise.all([
        client.invalidateQueries({ queryKey: ['webhooks'] }),
        client.invalidateQueries({ queryKey: ['webhook', webhook?.id] }),
      ]);
      if (!webhook) return;
      toast(t('saved'));
      onClose();
    },
  });
  if (save.data) return <SecretReady title={t('hooks.ready')} secret={save.data} onClose={onClose} />;
  const faults = save.error instanceof ApiFailure ? save.error.fields : new Map<string, string>();
  const field = (name: 'url' | 'description' | 'names', apiName: string) => ({
    value: draft[name],
    onChange: (value: string) => change({ [name]: value }),
    fault: faults.get(apiName),
  });
  const isShownAtField = ['url', 'description', 'event_names'].some((name) => faults.has(name));
  return (
    <Dialog title={t(webhook ? 'hooks.edit' : 'hooks.new')} isDrawer onClose={onClose}>
      <form
        className="panel"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <div className="fields">
          {save.isError && !isShownAtField ? <Failure error={save.error} /> : null}
          <Field
            label={t('hooks.url')}
            {...field('url', 'url')}
            placeholder="https://hooks.example.com/signpost"
            hint={t('hooks.url_hint')}
            inputMode="url"
            isRequired
            hasFocus
          />
          <Field label={t('hooks.description')} {...field('description', 'description')} placeholder="Warehouse" />
          {writable.length > 1 && !webhook ? (
            <Choice
              label={t('app.organization')}
              value={organization}
              options={writable.map(({ id, name }) => [id, name] as const)}
              onChange={(id) => {
                setOrganization(id);
                change({ appIds: [] });
              }}
            />
          ) : null}
          <Checks
            legend={t('hooks.events')}
            options={eventTypes.map((type) => [type, named('hooks.event', type)] as const)}
            chosen={draft.events}
            onChange={(events) => change({ events })}
            hasCodes
          />
          {hasNames(draft) ? (
            <Field
              label={t('hooks.names')}
              {...field('names', 'event_names')}
              placeholder="purchase, sign_up"
              hint={t('hooks.names_hint')}
              isRequired
            />
          ) : null}
          <OnlyApps organization={organization} chosen={draft.appIds} onChange={(appIds) => change({ appIds })} />
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={save.isPending || draft.events.length === 0}>
            {t(webhook ? 'save' : 'hooks.create')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

interface SecretReadyProps {
  readonly title: string;
  readonly secret: string;
  readonly note?: string;
  readonly onClose: () => void;
}

export function SecretReady({ title, secret, note, onClose }: SecretReadyProps) {
  return (
    <Dialog title={title} isDrawer onClose={onClose}>
      <div className="fields">
        <p className="notice warn">{t('hooks.once')}</p>
        <div className="secret">
          <code>{secret}</code>
          <CopyButton text={secret} label={t('copy')} />
        </div>
        <p className="muted small">{note ?? t('hooks.secret_about')}</p>
      </div>
      <footer>
        <button type="button" className="primary" onClick={onClose}>
          {t('done')}
        </button>
      </footer>
    </Dialog>
  );
}
