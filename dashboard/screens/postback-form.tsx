/** Creates or edits a postback: a template with macros, and the records for which it is sent. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, type Body, call } from '#dashboard/api.ts';
import { changedFields } from '#dashboard/form-changes.ts';
import { withScheme } from '#dashboard/link-draft.ts';
import { listOf, listText } from '#dashboard/list-text.ts';
import { useMe } from '#dashboard/me.ts';
import { Checks } from '#dashboard/parts/checks.tsx';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { Failure, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { OnlyApps } from '#dashboard/parts/only-apps.tsx';
import { Picks } from '#dashboard/parts/picks.tsx';
import { type Postback, showStored } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { PostbackTemplate } from './postback-template.tsx';

type Content = Body<'POST /postbacks'>;

const eventTypes = [
  'install.attributed',
  'event.recorded',
  'conversion.recorded',
] as const satisfies readonly Content['events'][number][];

interface PostbackFormProps {
  /** Absent: creates a new one. */
  readonly postback?: Postback;
  readonly onClose: () => void;
}

const draftOf = (postback: Postback | undefined) => ({
  url: postback?.url ?? '',
  method: postback?.method ?? ('GET' as const),
  body: postback?.body ?? '',
  description: postback?.description ?? '',
  names: listText(postback?.event_names ?? []),
  events: (postback?.events ?? []) as readonly Content['events'][number][],
  campaigns: (postback?.campaigns ?? []) as readonly string[],
  appIds: (postback?.app_ids ?? []) as readonly string[],
});
type Draft = ReturnType<typeof draftOf>;

const listOrNull = (values: readonly string[]) => (values.length === 0 ? null : [...values]);

function contentOf(draft: Draft) {
  return {
    url: withScheme(draft.url),
    method: draft.method,
    body: draft.method === 'POST' && draft.body.trim() !== '' ? draft.body.trim() : null,
    description: draft.description,
    events: [...draft.events],
    event_names: draft.events.includes('event.recorded') ? listOf(draft.names) : null,
    campaigns: listOrNull(draft.campaigns),
    app_ids: listOrNull(draft.appIds),
  };
}

const shownFields = ['url', 'body', 'description', 'event_names', 'campaigns'];

export function PostbackForm({ postback, onClose }: PostbackFormProps) {
  const { organizations } = useMe();
  const writable = organizations.filter(({ role }) => role !== 'viewer');
  const [organization, setOrganization] = useState(postback?.organization_id ?? writable[0]?.id ?? '');
  const [before] = useState(() => draftOf(postback));
  const [draft, setDraft] = useState(before);
  const change = (part: Partial<Draft>) => setDraft((now) => ({ ...now, ...part }));
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: async () => {
      const body = contentOf(draft);
      if (!postback) return await call('POST /postbacks', { body: { ...body, organization_id: organization } });
      const changes = changedFields(body, contentOf(before));
      if (Object.keys(changes).length === 0) return postback;
      return await call('PATCH /postbacks/{postback_id}', { params: { postback_id: postback.id }, body: changes });
    },
    onSuccess: async (saved) => {
      await showStored(client, ['postback', saved.id], saved);
      toast(t('saved'));
      onClose();
      await client.invalidateQueries({ queryKey: ['postbacks'] });
    },
  });
  const faults = save.error instanceof ApiFailure ? save.error.fields : new Map<string, string>();
  const faultOf = (name: string) => [...faults].find(([field]) => field === name || field.startsWith(`${name}[`))?.[1];
  const isShownAtField = shownFields.some((name) => faultOf(name) !== undefined);
  return (
    <Dialog title={t(postback ? 'posts.edit' : 'posts.new')} isDrawer onClose={onClose}>
      <form
        className="panel"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <div className="fields">
          {save.isError && !isShownAtField ? <Failure error={save.error} /> : null}
          <PostbackTemplate draft={draft} onChange={change} faultOf={faultOf} />
          <Field
            label={t('hooks.description')}
            value={draft.description}
            onChange={(description) => change({ description })}
            fault={faultOf('description')}
            placeholder="Example Ads"
          />
          {writable.length > 1 && !postback ? (
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
            options={eventTypes.map((type) => [type, named('posts.event', type)] as const)}
            chosen={draft.events}
            onChange={(events) => change({ events })}
            hint={t('posts.events_hint')}
          />
          {draft.events.includes('event.recorded') ? (
            <Field
              label={t('hooks.names')}
              value={draft.names}
              onChange={(names) => change({ names })}
              fault={faultOf('event_names')}
              placeholder="purchase, sign_up"
              hint={t('hooks.names_hint')}
              isRequired
            />
          ) : null}
          <Picks
            label={t('posts.campaigns')}
            chosen={draft.campaigns}
            options={[]}
            onChange={(campaigns) => change({ campaigns })}
            fault={faultOf('campaigns')}
            hint={t('posts.campaigns_hint')}
            placeholder="spring-sale"
            isFree
          />
          <OnlyApps organization={organization} chosen={draft.appIds} onChange={(appIds) => change({ appIds })} />
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={save.isPending || draft.events.length === 0}>
            {t(postback ? 'save' : 'posts.create')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
