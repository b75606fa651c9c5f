/** The drawer for creating or editing a link. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Suspense, useState } from 'react';
import { type Answer, ApiFailure } from '#dashboard/api.ts';
import { type Availability, useAvailability } from '#dashboard/code-availability.ts';
import { changed, draftOf, type Link, type LinkDraft } from '#dashboard/link-draft.ts';
import { LinkSaving, type PasswordDraft } from '#dashboard/link-saving.ts';
import { clicksUsed } from '#dashboard/link-words.ts';
import { useMe } from '#dashboard/me.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { Failure, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field, More, useFaultFocus } from '#dashboard/parts/fields.tsx';
import { screen } from '#dashboard/parts/screen-boundary.tsx';
import { SocialCards } from '#dashboard/parts/social-cards.tsx';
import { showStored, useApps } from '#dashboard/queries.ts';
import { type RuleDraft, ruleDraftOf, ruleOf } from '#dashboard/rule-draft.ts';
import { t } from '#dashboard/texts/text.ts';
import { utmExamples, utmFields } from '#dashboard/utm.ts';
import { LinkReady } from './link-ready.tsx';
import { UtmTemplateChoice } from './utm-template-choice.tsx';

/** Few links have rules. */
const RulesEditor = screen(async () => ({ default: (await import('./rules-editor.tsx')).RulesEditor }));

interface LinkFormProps {
  /** Null: a new link. */
  readonly link: Link | null;
  readonly appId?: string | undefined;
  /** Initial values of a new link. */
  readonly code?: string;
  readonly onClose: () => void;
}

export function LinkForm({ link, appId, code, onClose }: LinkFormProps) {
  const { apps, refused } = useAppsFor(link, appId);
  const [before] = useState(() => draftOf(link));
  const [draft, setDraft] = useState(code === undefined ? before : { ...before, short_code: code });
  const [rulesBefore] = useState(() => (link?.rules ?? []).map(ruleDraftOf));
  const [rules, setRules] = useState<readonly RuleDraft[]>(rulesBefore);
  const [password, setPassword] = useState<PasswordDraft>({ text: '', isRemoved: false });
  const [saving] = useState(() => new LinkSaving(link, before));
  const [chosenApp, setApp] = useState(link?.app_id ?? appId ?? '');
  const app = apps.find(({ id }) => id === chosenApp) ?? apps.find(isServed) ?? apps[0];
  const availability = useAvailability(app?.id ?? '', draft.short_code, before.short_code);
  const client = useQueryClient();
  const areRulesChanged = JSON.stringify(rules) !== JSON.stringify(rulesBefore);
  const save = useMutation({
    mutationFn: () => {
      const sent = areRulesChanged ? rules.map(ruleOf) : undefined;
      return saving.save({ draft, appId: app?.id ?? '', rules: sent, password });
    },
    onSuccess: async (saved) => {
      await showStored(client, ['link', saved.id], saved);
      await client.invalidateQueries({ queryKey: ['links'] });
      if (!link) return;
      toast(t('saved'));
      onClose();
    },
  });
  const form = useFaultFocus(save.error);
  if (save.data && !link) return <LinkReady link={save.data} onClose={onClose} />;
  const hasPasswordChange = password.text !== '' || password.isRemoved;
  const isUnchanged =
    link !== null && !areRulesChanged && !hasPasswordChange && JSON.stringify(draft) === JSON.stringify(before);
  return (
    <Dialog title={t(link ? 'link.edit' : 'link.new')} isDrawer onClose={onClose}>
      <form
        className="panel"
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <div className="fields">
          {save.isError && !isAboutField(save.error) ? <Failure error={save.error} /> : null}
          {refused ? <p className="notice warn small">{refused}</p> : null}
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
            link={link}
            appId={app?.id ?? ''}
            host={app?.host ?? ''}
            availability={availability}
            error={save.error}
            onChange={(change) => setDraft(changed(draft, change))}
          />
          <Rules rules={rules} error={save.error} onChange={setRules} />
          <Password
            isSet={link?.has_password ?? false}
            password={password}
            fault={faultsOf(save.error).get('password')}
            onChange={setPassword}
          />
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={save.isPending || isUnchanged || (!link && !app)}>
            {t(link ? 'save' : 'link.create')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

type ListedApp = Answer<'GET /apps'>['data'][number];

const isServed = (app: ListedApp) => app.host_verification.status === 'verified';

/** The apps in which the link may be: its own, or those in which the user may create links; and why the asked one is none. */
function useAppsFor(link: Link | null, appId: string | undefined) {
  const { all, organizations } = useMe();
  const found = useApps().data?.data;
  if (link) return { apps: (found ?? []).filter(({ id }) => id === link.app_id), refused: '' };
  const writable = organizations.filter(({ role }) => role !== 'viewer').map(({ id }) => id);
  const apps = (found ?? []).filter(({ organization_id }) => writable.includes(organization_id));
  const asked = found?.find(({ id }) => id === appId);
  const owner = all.find(({ id }) => id === asked?.organization_id)?.name ?? '';
  if (found && apps.length === 0) return { apps, refused: t('link.no_app') };
  const isRefused = asked !== undefined && !apps.includes(asked);
  return { apps, refused: isRefused ? t('link.only_viewer', { name: owner, app: asked.name }) : '' };
}

const noFaults: ReadonlyMap<string, string> = new Map();
const faultsOf = (error: unknown) => (error instanceof ApiFailure ? error.fields : noFaults);

const isAboutField = (error: unknown) =>
  [...faultsOf(error).keys()].some((field) => field !== 'body' && field !== 'app_id');

interface LinkFieldsProps {
  readonly link: Link | null;
  readonly draft: LinkDraft;
  readonly appId: string;
  readonly host: string;
  readonly availability: Availability;
  readonly error: unknown;
  readonly onChange: (change: Partial<LinkDraft>) => void;
}

const previewFields = ['og_title', 'og_description', 'og_image_url'] as const;

function LinkFields({ link, draft, appId, host, availability, error, onChange }: LinkFieldsProps) {
  const faults = faultsOf(error);
  const fault = (...fields: readonly string[]) => fields.map((field) => faults.get(field)).find((text) => text);
  const hasFault = (...fields: readonly string[]) => fault(...fields) !== undefined;
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
      <More title={t('link.utm')} hasFault={hasFault(...utmFields)}>
        <UtmTemplateChoice appId={appId} draft={draft} onChange={onChange} />
        {utmFields.map((name) => (
          <Field key={name} label={name} {...field(name)} placeholder={utmExamples[name]} />
        ))}
      </More>
      <More title={t('link.in_app')} hasFault={hasFault('path', 'ios_url', 'android_url')}>
        <Field label={t('link.path')} {...field('path')} placeholder="/product/42" hint={t('link.path_hint')} />
        <Field label={t('link.ios')} {...field('ios_url')} hint={t('link.ios_hint')} />
        <Field label={t('link.android')} {...field('android_url')} hint={t('link.android_hint')} />
      </More>
      <More title={t('link.preview')} hasFault={hasFault(...previewFields)}>
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
      <More title={t('link.more')} hasFault={hasFault('tags', 'expires_at', 'max_clicks', 'expired_url')}>
        <Field label={t('link.tags')} {...field('tags')} hint={t('link.tags_hint')} />
        <Field label={t('link.expires')} type="datetime-local" {...field('expires')} fault={fault('expires_at')} />
        <Field
          label={t('link.max_clicks')}
          {...field('max_clicks')}
          inputMode="numeric"
          placeholder={t('link.no_max')}
          hint={`${t('link.max_clicks_hint')} ${clicksUsed(link)}`.trim()}
        />
        <Field label={t('link.expired_url')} {...field('expired_url')} hint={t('link.expired_url_hint')} />
      </More>
    </>
  );
}

interface RulesProps {
  readonly rules: readonly RuleDraft[];
  readonly error: unknown;
  readonly onChange: (rules: readonly RuleDraft[]) => void;
}

function Rules({ rules, error, onChange }: RulesProps) {
  const faults = faultsOf(error);
  const hasFault = [...faults.keys()].some((field) => field.startsWith('rules'));
  const count = rules.length === 0 ? '' : ` (${rules.length})`;
  return (
    <More title={`${t('rules.title')}${count}`} hasFault={hasFault}>
      <Suspense fallback={<Loading lines={1} />}>
        <RulesEditor rules={rules} faults={faults} onChange={onChange} />
      </Suspense>
    </More>
  );
}

interface PasswordProps {
  readonly isSet: boolean;
  readonly password: PasswordDraft;
  readonly fault: string | undefined;
  readonly onChange: (password: PasswordDraft) => void;
}

function Password({ isSet, password, fault, onChange }: PasswordProps) {
  const title = isSet ? `${t('link.password')} (${t('link.password_set')})` : t('link.password');
  return (
    <More title={title} hasFault={fault !== undefined}>
      {password.isRemoved ? null : (
        <Field
          label={t(isSet ? 'link.password_new' : 'link.password_ask')}
          type="password"
          value={password.text}
          onChange={(text) => onChange({ ...password, text })}
          fault={fault}
          hint={t('link.password_hint')}
          autoComplete="new-password"
        />
      )}
      {isSet ? (
        <label className="check">
          <input
            type="checkbox"
            checked={password.isRemoved}
            onChange={(event) => onChange({ text: '', isRemoved: event.currentTarget.checked })}
          />
          <span>{t('link.password_remove')}</span>
        </label>
      ) : null}
    </More>
  );
}
