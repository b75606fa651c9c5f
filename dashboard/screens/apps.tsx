/** The apps of the organization, each with its host and what is set up. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link as PageLink, useLocation } from 'wouter';
import { useAddress } from '#dashboard/address.ts';
import { type Answer, ApiFailure, call } from '#dashboard/api.ts';
import { withScheme } from '#dashboard/link-draft.ts';
import { useCanWrite, useMe } from '#dashboard/me.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { AppsCsv } from '#dashboard/parts/list-csv.tsx';
import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';

type ListedApp = Answer<'GET /apps'>['data'][number];

export function Apps() {
  const apps = useApps();
  const { get, set } = useAddress();
  const canWrite = useCanWrite();
  const rows = apps.data?.data ?? [];
  return (
    <div>
      <div className="head">
        <h1>{t('nav.apps')}</h1>
        {rows.length > 0 ? <AppsCsv /> : null}
        {canWrite ? (
          <button type="button" className="primary push" onClick={() => set({ new: '1' })}>
            <Icon name="plus" />
            {t('app.new')}
          </button>
        ) : null}
      </div>
      {apps.isError && !apps.data ? <Failure error={apps.error} retry={() => void apps.refetch()} /> : null}
      {apps.data && rows.length === 0 ? (
        <section className="card">
          <Empty title={t('apps.none')} text={t('apps.none_text')} />
        </section>
      ) : null}
      {apps.isPending ? (
        <section className="card">
          <Loading />
        </section>
      ) : null}
      <ul className="grid3">
        {rows.map((app) => (
          <AppCard key={app.id} app={app} />
        ))}
      </ul>
      {get('new') !== null && canWrite ? <NewApp onClose={() => set({ new: null })} /> : null}
    </div>
  );
}

function AppCard({ app }: { readonly app: ListedApp }) {
  return (
    <li className="card covered">
      <div className="inside stack tight">
        <div className="row">
          <PageLink className="strong cut cover" href={`/apps/${app.id}`}>
            {app.name}
          </PageLink>
          {app.host_verification.status === 'pending' ? (
            <span className="tag warn push">{t('host.pending')}</span>
          ) : (
            <span className="tag good push">{t('host.verified')}</span>
          )}
        </div>
        <span className="muted cut">{app.host}</span>
        <span className="row wrap">
          {app.ios ? <span className="tag">iOS</span> : null}
          {app.android ? <span className="tag">Android</span> : null}
          {!app.ios && !app.android ? <span className="tag">{t('apps.web_only')}</span> : null}
        </span>
      </div>
    </li>
  );
}

function NewApp({ onClose }: { readonly onClose: () => void }) {
  const { organizations } = useMe();
  const writable = organizations.filter(({ role }) => role !== 'viewer');
  const [organization, setOrganization] = useState(writable[0]?.id ?? '');
  const [draft, setDraft] = useState({ name: '', host: '', fallback: '', ios: '', android: '' });
  const client = useQueryClient();
  const [, go] = useLocation();
  const save = useMutation({
    mutationFn: () =>
      call('POST /apps', {
        body: {
          name: draft.name,
          organization_id: organization,
          ...(draft.host.trim() === '' ? {} : { host: draft.host.trim() }),
          ...(draft.fallback.trim() === '' ? {} : { fallback_url: withScheme(draft.fallback) }),
          ...(draft.ios.trim() === '' ? {} : { ios: { bundle_id: draft.ios.trim() } }),
          ...(draft.android.trim() === '' ? {} : { android: { package_name: draft.android.trim() } }),
        },
      }),
    onSuccess: async (app) => {
      await client.invalidateQueries({ queryKey: ['apps'] });
      go(`/apps/${app.id}`);
    },
  });
  const faults = save.error instanceof ApiFailure ? save.error.fields : new Map<string, string>();
  const field = (name: keyof typeof draft, apiName: string) => ({
    value: draft[name],
    onChange: (value: string) => setDraft({ ...draft, [name]: value }),
    fault: faults.get(apiName),
  });
  return (
    <Dialog title={t('app.new')} isDrawer onClose={onClose}>
      <form
        className="panel"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <div className="fields">
          {save.isError && faults.size === 0 ? <Failure error={save.error} /> : null}
          <Field label={t('app.name')} {...field('name', 'name')} placeholder="Shop" isRequired hasFocus />
          {writable.length > 1 ? (
            <Choice
              label={t('app.organization')}
              value={organization}
              options={writable.map(({ id, name }) => [id, name] as const)}
              onChange={setOrganization}
            />
          ) : null}
          <Field
            label={t('app.fallback')}
            {...field('fallback', 'fallback_url')}
            placeholder="https://www.example.com"
            hint={t('app.fallback_hint')}
            inputMode="url"
          />
          <Field
            label={t('app.host')}
            {...field('host', 'host')}
            placeholder={t('app.host_placeholder')}
            hint={t('app.host_hint')}
          />
          <Field label={t('app.bundle')} {...field('ios', 'ios.bundle_id')} placeholder="com.example.shop" />
          <Field
            label={t('app.package')}
            {...field('android', 'android.package_name')}
            placeholder="com.example.shop"
          />
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={save.isPending}>
            {t('app.create')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
