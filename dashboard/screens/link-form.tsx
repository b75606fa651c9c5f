/** The drawer in which a link is created or changed. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiFailure, call } from '#dashboard/api.ts';
import { type Availability, useAvailability } from '#dashboard/code-availability.ts';
import { changesOf, draftOf, type Link, type LinkDraft, newLinkOf } from '#dashboard/link-draft.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { Failure, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field, More } from '#dashboard/parts/fields.tsx';
import { SocialCards } from '#dashboard/parts/social-cards.tsx';
import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { LinkReady } from './link-ready.tsx';

interface LinkFormProps {
  /** Null: a new one. */
  readonly link: Link | null;
  readonly appId?: string | undefined;
  readonly onClose: () => void;
}

export function LinkForm({ link, appId, onClose }: LinkFormProps) {
  const apps = useApps().data?.data ?? [];
  const [before] = useState(() => draftOf(link));
  const [draft, setDraft] = useState(before);
  const [chosenApp, setApp] = useState(link?.app_id ?? appId ?? '');
  const isServed = (one: (typeof apps)[number]) => one.host_verification.status === 'verified';
  const app = apps.find(({ id }) => id === chosenApp) ?? apps.find(isServed) ?? apps[0];
  const availability = useAvailability(app?.id ?? '', draft.short_code, before.short_code);
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: () =>
      link
        ? call('PATCH /links/{id}', { params: { id: link.id }, body: changesOf(draft, before) })
        : call('POST /links', { body: newLinkOf(draft, app?.id ?? '') }),
    onSuccess: async (saved) => {
      client.setQueryData(['link', saved.id], saved);
      await client.invalidateQueries({ queryKey: ['links'] });
      if (!link) return;
      toast(t('saved'));
      onClose();
    },
  });
  if (save.data && !link) return <LinkReady link={save.data} onClose={onClose} />;
  const isUnchanged = link !== null && JSON.stringify(draft) === JSON.stringify(before);
  return (
    <Dialog title={t(link ? 'link.edit' : 'link.new')} isDrawer onClose={onClose}>
      <form
        className="panel"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <div className="fields">
          {save.isError && !isAboutField(save.error) ? <Failure error={save.error} /> : null}
          {!link && apps.length > 1 ? (
            <Choice
              label={t('link.app')}
              value={app?.id ?? ''}
              options={apps.map(({ id, name }) => [id, name] as const)}
              onChange={setApp}
            />
          ) : null}
          {app && !isServed(app) ? (
            <p className="notice warn small">{t('link.not_served', { host: app.host })}</p>
          ) : null}
          <LinkFields
            draft={draft}
            host={app?.host ?? ''}
            availability={availability}
            error={save.error}
            onChange={(change) => setDraft({ ...draft, ...change })}
          />
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={save.isPending || isUnchanged}>
            {t(link ? 'save' : 'link.create')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

const isAboutField = (error: unknown) =>
  error instanceof ApiFailure && [...error.fields.keys()].some((field) => field !== 'body' && field !== 'app_id');

interface LinkFieldsProps {
  readonly draft: LinkDraft;
  readonly host: string;
  readonly availability: Availability;
  readonly error: unknown;
  readonly onChange: (change: Partial<LinkDraft>) => void;
}

const utmFields = ['utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content'] as const;
const previewFields = ['og_title', 'og_description', 'og_image_url'] as const;

function LinkFields({ draft, host, availability, error, onChange }: LinkFieldsProps) {
  const fault = (...fields: readonly string[]) =>
    error instanceof ApiFailure ? fields.map((field) => error.fields.get(field)).find((text) => text) : undefined;
  const field = (name: keyof LinkDraft & string) => ({
    value: draft[name],
    onChange: (value: string) => onChange({ [name]: value }),
    fault: fault(name),
  });
  return (
    <>
      <Field
        label={t('link.destination')}
        {...field('destination')}
        fault={fault('fallback_url', 'url')}
        inputMode="url"
        placeholder="https://example.com/sale"
        hint={t('link.destination_hint')}
        hasFocus
      />
      <Field
        label={t('link.code')}
        {...field('short_code')}
        before={host === '' ? '' : `${host}/`}
        placeholder={t('link.code_random')}
        status={availability}
      />
      <Field label={t('link.campaign')} {...field('campaign')} placeholder="spring-sale" />
      <Field label={t('link.title')} {...field('title')} hint={t('link.title_hint')} />
      <More title={t('link.utm')}>
        {utmFields.map((name) => (
          <Field key={name} label={name} {...field(name)} />
        ))}
      </More>
      <More title={t('link.in_app')}>
        <Field label={t('link.path')} {...field('path')} placeholder="/product/42" hint={t('link.path_hint')} />
        <Field label={t('link.ios')} {...field('ios_url')} hint={t('link.ios_hint')} />
        <Field label={t('link.android')} {...field('android_url')} hint={t('link.android_hint')} />
      </More>
      <More title={t('link.preview')}>
        {previewFields.map((name) => (
          <Field key={name} label={t(`link.${name}`)} {...field(name)} />
        ))}
        <SocialCards
          title={draft.og_title}
          text={draft.og_description}
          image={draft.og_image_url}
          host={host}
          destination={draft.destination}
        />
      </More>
      <More title={t('link.more')}>
        <Field label={t('link.tags')} {...field('tags')} hint={t('link.tags_hint')} />
        <Field label={t('link.expires')} type="datetime-local" {...field('expires')} fault={fault('expires_at')} />
        <Field label={t('link.expired_url')} {...field('expired_url')} />
      </More>
    </>
  );
}
