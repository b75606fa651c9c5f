/** The settings of an app that owners and members can change. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { ApiFailure, type Body, call } from '#dashboard/api.ts';
import { useDraft } from '#dashboard/draft.ts';
import { changedFields } from '#dashboard/form-changes.ts';
import { withScheme } from '#dashboard/link-draft.ts';
import { listOf, listText } from '#dashboard/list-text.ts';
import { Failure, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field, useFaultFocus } from '#dashboard/parts/fields.tsx';
import { type App, showStored } from '#dashboard/queries.ts';
import { settingNumber } from '#dashboard/setting-number.ts';
import { t } from '#dashboard/texts/text.ts';
import { AppPages } from './app-pages.tsx';
import { WhatIf } from './what-if.tsx';

const draftOf = (app: App) => ({
  name: app.name,
  host: app.host,
  fallback: app.fallback_url ?? '',
  bundle: app.ios?.bundle_id ?? '',
  team: app.ios?.team_id ?? '',
  store: app.ios?.app_store_id ?? '',
  iosScheme: app.ios?.uri_scheme ?? '',
  package: app.android?.package_name ?? '',
  fingerprints: listText(app.android?.sha256_cert_fingerprints ?? []),
  androidScheme: app.android?.uri_scheme ?? '',
  attribution: String(app.settings.attribution_window_hours),
  probabilistic: String(app.settings.probabilistic_window_hours),
  confidence: String(app.settings.min_confidence),
  privacy: app.settings.privacy_mode,
  tapPage: app.settings.tap_page,
  queryMerge: app.settings.query_merge,
  conversions: listText(app.settings.conversion_events),
  notFound: app.pages?.not_found ?? '',
  expired: app.pages?.expired ?? '',
});
type Draft = ReturnType<typeof draftOf>;

const orNull = (text: string) => text.trim() || null;

/** Numbers that the user mistyped are sent as text: the API says which field is wrong. */
function bodyOf(draft: Draft): Body<'PATCH /apps/{id}'> {
  const body = {
    name: draft.name,
    host: draft.host.trim(),
    fallback_url: draft.fallback.trim() === '' ? null : withScheme(draft.fallback),
    ios:
      draft.bundle.trim() === ''
        ? null
        : {
            bundle_id: draft.bundle.trim(),
            team_id: orNull(draft.team),
            // As in the URL of the store: id123456789.
            app_store_id: orNull(draft.store.trim().replace(/^id(?=\d)/, '')),
            uri_scheme: orNull(draft.iosScheme),
          },
    android:
      draft.package.trim() === ''
        ? null
        : {
            package_name: draft.package.trim(),
            sha256_cert_fingerprints: listOf(draft.fingerprints),
            uri_scheme: orNull(draft.androidScheme),
          },
    pages: { not_found: orNull(draft.notFound), expired: orNull(draft.expired) },
    settings: {
      attribution_window_hours: settingNumber(draft.attribution),
      probabilistic_window_hours: settingNumber(draft.probabilistic),
      min_confidence: settingNumber(draft.confidence),
      privacy_mode: draft.privacy,
      tap_page: draft.tapPage,
      query_merge: draft.queryMerge,
      conversion_events: listOf(draft.conversions),
    },
  };
  return body as Body<'PATCH /apps/{id}'>;
}

export function AppSettings({ app, canWrite }: { readonly app: App; readonly canWrite: boolean }) {
  const { before, draft, change, saved } = useDraft(draftOf(app));
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: async (sent: Draft) => {
      const body = changedFields(bodyOf(sent), bodyOf(before));
      return { sent, stored: await call('PATCH /apps/{id}', { params: { id: app.id }, body }) };
    },
    onSuccess: async ({ sent, stored }) => {
      saved(sent, draftOf(stored));
      await showStored(client, ['app', app.id], stored);
      toast(t('saved'));
      await client.invalidateQueries({ queryKey: ['apps'] });
    },
  });
  const faults = save.error instanceof ApiFailure ? save.error.fields : new Map<string, string>();
  const field = (name: keyof Draft, apiName: string) => ({
    value: draft[name],
    onChange: (value: string) => change({ [name]: value }),
    fault: faults.get(apiName),
  });
  const form = useFaultFocus(save.error);
  const isUnchanged = Object.keys(changedFields(bodyOf(draft), bodyOf(before))).length === 0;
  return (
    <form
      className="card"
      ref={form}
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate(draft);
      }}
    >
      <header>
        <h2>{t('app.settings')}</h2>
        {canWrite ? (
          <button type="submit" className="primary push" disabled={isUnchanged || save.isPending}>
            {t('save')}
          </button>
        ) : null}
      </header>
      {save.isError && faults.size === 0 ? (
        <div className="inside">
          <Failure error={save.error} />
        </div>
      ) : null}
      <fieldset className="inside grid3 plain" disabled={!canWrite}>
        <legend className="sr">{t('app.settings')}</legend>
        <div className="stack">
          <h3>{t('app.general')}</h3>
          <Field label={t('app.name')} {...field('name', 'name')} />
          <Field label={t('app.host')} {...field('host', 'host')} hint={t('app.host_hint')} />
          <Field label={t('app.fallback')} {...field('fallback', 'fallback_url')} hint={t('app.fallback_hint')} />
          <Field
            label={t('app.conversions')}
            {...field('conversions', 'settings.conversion_events')}
            placeholder="purchase, sign_up"
            hint={t('app.conversions_hint')}
          />
          <AppPages notFound={field('notFound', 'pages.not_found')} expired={field('expired', 'pages.expired')} />
        </div>
        <Platforms field={field} />
        <div className="stack">
          <h3>{t('app.matching')}</h3>
          <Field
            label={t('app.attribution')}
            {...field('attribution', 'settings.attribution_window_hours')}
            hint={t('app.attribution_hint')}
            inputMode="numeric"
          />
          <Field
            label={t('app.probabilistic')}
            {...field('probabilistic', 'settings.probabilistic_window_hours')}
            hint={t('app.probabilistic_hint')}
            inputMode="numeric"
          />
          <Field
            label={t('app.confidence')}
            {...field('confidence', 'settings.min_confidence')}
            hint={t('app.confidence_hint')}
          />
          <WhatIf app={app} windowHours={draft.probabilistic} confidence={draft.confidence} />
          <Choice
            label={t('app.privacy')}
            value={draft.privacy}
            options={[
              ['anonymize_ip', t('privacy.anonymize_ip')],
              ['full_ip', t('privacy.full_ip')],
              ['no_ip', t('privacy.no_ip')],
            ]}
            onChange={(privacy) => change({ privacy })}
          />
          <Choice
            label={t('app.tap_page')}
            value={draft.tapPage}
            options={[
              ['off', t('tap_page.off')],
              ['ios', t('tap_page.ios')],
              ['mobile', t('tap_page.mobile')],
            ]}
            onChange={(tapPage) => change({ tapPage })}
          />
          <Choice
            label={t('app.query_merge')}
            value={draft.queryMerge}
            options={[
              ['destination', t('query_merge.destination')],
              ['visit', t('query_merge.visit')],
            ]}
            onChange={(queryMerge) => change({ queryMerge })}
          />
        </div>
      </fieldset>
    </form>
  );
}

interface PlatformsProps {
  readonly field: (
    name: keyof Draft,
    apiName: string,
  ) => { readonly value: string; readonly onChange: (value: string) => void; readonly fault: string | undefined };
}

function Platforms({ field }: PlatformsProps) {
  return (
    <div className="stack">
      <h3>iOS</h3>
      <Field label={t('app.bundle')} {...field('bundle', 'ios.bundle_id')} placeholder="com.example.shop" />
      <Field
        label={t('app.team')}
        {...field('team', 'ios.team_id')}
        placeholder="ABCDE12345"
        hint={t('app.team_hint')}
      />
      <Field
        label={t('app.store')}
        {...field('store', 'ios.app_store_id')}
        placeholder="123456789"
        hint={t('app.store_hint')}
      />
      <Field label={t('app.ios_scheme')} {...field('iosScheme', 'ios.uri_scheme')} placeholder="shop" />
      <h3>Android</h3>
      <Field label={t('app.package')} {...field('package', 'android.package_name')} placeholder="com.example.shop" />
      <Field
        label={t('app.fingerprints')}
        {...field('fingerprints', 'android.sha256_cert_fingerprints')}
        placeholder="14:6D:E9:…"
        hint={t('app.fingerprints_hint')}
      />
      <Field label={t('app.android_scheme')} {...field('androidScheme', 'android.uri_scheme')} placeholder="shop" />
    </div>
  );
}
