/** Server keys: what each may do, and when it was last used. Only owners can see them. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useAddress, useView } from '#dashboard/address.ts';
import { type Answer, ApiFailure, type Body, call } from '#dashboard/api.ts';
import { ago, date } from '#dashboard/format.ts';
import { useMe } from '#dashboard/me.ts';
import { Confirm, Dialog } from '#dashboard/parts/dialog.tsx';
import { CopyButton, Empty, Failure, failureText, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { PeopleTabs } from '#dashboard/parts/people-tabs.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';

type Key = Answer<'GET /keys'>['data'][number];
type Scope = Body<'POST /keys'>['scopes'][number];

const pageSize = 50;
const scopes = [
  'links:read',
  'links:write',
  'apps:read',
  'apps:write',
  'analytics:read',
  'analytics:write',
  'import',
  'webhooks',
] as const satisfies readonly Scope[];

export function ServerKeys() {
  const { get, set } = useAddress();
  const { timezone } = useView();
  const { organizations } = useMe();
  const isOwner = organizations.some(({ role }) => role === 'owner');
  const offset = Math.max(0, Number(get('offset')) || 0);
  const keys = useQuery({
    queryKey: ['keys', offset],
    queryFn: () => call('GET /keys', { query: { limit: pageSize, offset } }),
    enabled: isOwner,
  });
  const [removed, setRemoved] = useState<Key | null>(null);
  const rows = keys.data?.data ?? [];
  return (
    <div>
      <div className="head">
        <h1>{t('nav.members')}</h1>
        {isOwner ? (
          <button type="button" className="primary push" onClick={() => set({ new: '1' })}>
            <Icon name="plus" />
            {t('keys2.new')}
          </button>
        ) : null}
      </div>
      <PeopleTabs />
      <p className="muted lead">{t('keys2.text')}</p>
      {!isOwner ? <p className="notice">{t('keys2.owners')}</p> : null}
      {keys.isError && !keys.data ? <Failure error={keys.error} retry={() => void keys.refetch()} /> : null}
      {isOwner && !keys.isError ? (
        <section className="card">
          {keys.isPending ? <Loading /> : null}
          {keys.data && rows.length === 0 ? <Empty title={t('keys2.none')} text={t('keys2.none_text')} /> : null}
          {rows.length > 0 ? <KeyTable rows={rows} zone={timezone} onRemove={setRemoved} /> : null}
          {keys.data && keys.data.pagination.total > pageSize ? (
            <Pager {...keys.data.pagination} onMove={(next) => set({ offset: next === 0 ? null : String(next) })} />
          ) : null}
        </section>
      ) : null}
      {get('new') !== null && isOwner ? <NewKey onClose={() => set({ new: null })} /> : null}
      {removed ? <RemoveKey serverKey={removed} onClose={() => setRemoved(null)} /> : null}
    </div>
  );
}

interface KeyTableProps {
  readonly rows: readonly Key[];
  readonly zone: string;
  readonly onRemove: (key: Key) => void;
}

function KeyTable({ rows, zone, onRemove }: KeyTableProps) {
  return (
    <ScrollArea label={t('keys2.title')}>
      <table>
        <thead>
          <tr>
            <th>{t('app.name')}</th>
            <th className="hide-narrow">{t('keys2.scopes')}</th>
            <th>{t('keys2.used')}</th>
            <th className="hide-narrow">{t('keys2.expires')}</th>
            <th>
              <span className="sr">{t('links.actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((key) => (
            <tr key={key.id}>
              <td>
                <div className="two">
                  <span className="strong">{key.name}</span>
                  <code className="muted">{key.key_preview}</code>
                </div>
              </td>
              <td className="hide-narrow">
                <span className="row wrap">
                  {key.scopes.map((scope) => (
                    <span key={scope} className="tag mono">
                      {scope}
                    </span>
                  ))}
                </span>
              </td>
              <td className="nowrap">{key.last_used_at ? ago(key.last_used_at) : t('keys2.never')}</td>
              <td className="hide-narrow nowrap">
                {key.expires_at === null ? (
                  <span className="muted">{t('keys2.no_end')}</span>
                ) : Date.parse(key.expires_at) <= Date.now() ? (
                  <span className="tag bad">{t('link.expired')}</span>
                ) : (
                  date(key.expires_at, zone)
                )}
              </td>
              <td className="num">
                <button
                  type="button"
                  className="danger"
                  aria-label={t('keys2.delete', { name: key.name })}
                  onClick={() => onRemove(key)}
                >
                  {t('delete')}
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}

function RemoveKey({ serverKey, onClose }: { readonly serverKey: Key; readonly onClose: () => void }) {
  const client = useQueryClient();
  const remove = useMutation({
    mutationFn: () => call('DELETE /keys/{id}', { params: { id: serverKey.id } }),
    onSuccess: async () => {
      toast(t('keys2.deleted'));
      onClose();
      await client.invalidateQueries({ queryKey: ['keys'] });
    },
    onError: (error) => toast(failureText(error)),
  });
  const { last_used_at } = serverKey;
  return (
    <Confirm
      title={t('keys2.delete', { name: serverKey.name })}
      text={last_used_at ? t('keys2.delete_used', { time: ago(last_used_at) }) : t('keys2.delete_unused')}
      action={t('delete')}
      isBusy={remove.isPending}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    />
  );
}

const ends = ['30', '90', '365', ''] as const;

function NewKey({ onClose }: { readonly onClose: () => void }) {
  const { organizations } = useMe();
  const owned = organizations.filter(({ role }) => role === 'owner');
  const apps = useApps().data?.data ?? [];
  const [organization, setOrganization] = useState(owned[0]?.id ?? '');
  const [name, setName] = useState('');
  const [app, setApp] = useState('');
  const [days, setDays] = useState<(typeof ends)[number]>('90');
  const [chosen, setChosen] = useState<readonly Scope[]>(['links:read']);
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: () =>
      call('POST /keys', {
        body: {
          name,
          organization_id: organization,
          scopes: [...chosen],
          app_ids: app === '' ? null : [app],
          expires_at: days === '' ? null : new Date(Date.now() + Number(days) * 86_400_000).toISOString(),
        },
      }),
    onSuccess: () => client.invalidateQueries({ queryKey: ['keys'] }),
  });
  const faults = save.error instanceof ApiFailure ? save.error.fields : new Map<string, string>();
  if (save.data) return <KeyReady created={save.data.key} onClose={onClose} />;
  return (
    <Dialog title={t('keys2.new')} isDrawer onClose={onClose}>
      <form
        className="panel"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <div className="fields">
          {save.isError && !faults.has('name') ? <Failure error={save.error} /> : null}
          <Field
            label={t('app.name')}
            value={name}
            onChange={setName}
            fault={faults.get('name')}
            hint={t('keys2.name_hint')}
            placeholder="Shop backend"
            isRequired
            hasFocus
          />
          {owned.length > 1 ? (
            <Choice
              label={t('app.organization')}
              value={organization}
              options={owned.map(({ id, name: text }) => [id, text] as const)}
              onChange={(id) => {
                setOrganization(id);
                setApp('');
              }}
            />
          ) : null}
          <fieldset className="plain checks">
            <legend className="label">{t('keys2.scopes')}</legend>
            {scopes.map((scope) => (
              <label key={scope} className="check">
                <input
                  type="checkbox"
                  checked={chosen.includes(scope)}
                  onChange={(event) =>
                    setChosen(event.currentTarget.checked ? [...chosen, scope] : chosen.filter((one) => one !== scope))
                  }
                />
                <span>{t(`scope.${scope}`)}</span>
                <code className="muted">{scope}</code>
              </label>
            ))}
          </fieldset>
          <Choice
            label={t('keys2.apps')}
            value={app}
            options={[
              ['', t('all_apps')] as const,
              ...apps.filter((one) => one.organization_id === organization).map((one) => [one.id, one.name] as const),
            ]}
            onChange={setApp}
          />
          <Choice
            label={t('keys2.expires')}
            value={days}
            options={ends.map(
              (one) => [one, one === '' ? t('keys2.no_end') : t('keys2.days', { count: one })] as const,
            )}
            onChange={setDays}
          />
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={save.isPending || chosen.length === 0}>
            {t('keys2.create')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function KeyReady({ created, onClose }: { readonly created: string; readonly onClose: () => void }) {
  return (
    <Dialog title={t('keys2.ready')} isDrawer onClose={onClose}>
      <div className="fields">
        <p className="notice warn">{t('keys2.once')}</p>
        <div className="secret">
          <code>{created}</code>
          <CopyButton text={created} label={t('copy')} />
        </div>
        <pre>{`curl ${location.origin}/v1/links \\\n  -H 'Authorization: Bearer ${created}'`}</pre>
      </div>
      <footer>
        <button type="button" className="primary" onClick={onClose}>
          {t('done')}
        </button>
      </footer>
    </Dialog>
  );
}
