/** Saved views of the overview: period, time zone and filters under a name. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { filterNames, useAddress, viewOf } from '#dashboard/address.ts';
import { type Answer, ApiFailure, call } from '#dashboard/api.ts';
import { useMe } from '#dashboard/me.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { Failure, failureText, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { t } from '#dashboard/texts/text.ts';

type SavedView = Answer<'GET /views'>['data'][number];

/** Names of parameters in the API, and in the URL. */
const renamed = { interval: 'period', timezone: 'tz' } as const;
const kept = ['start', 'end', ...filterNames] as const;

export function SavedViews({ onClose }: { readonly onClose: () => void }) {
  const { organizations } = useMe();
  const writable = organizations.filter(({ role }) => role !== 'viewer');
  const views = useQuery({ queryKey: ['views'], queryFn: () => call('GET /views', { query: { limit: 100 } }) });
  const client = useQueryClient();
  const [, go] = useLocation();
  const remove = useMutation({
    mutationFn: (id: string) => call('DELETE /views/{view_id}', { params: { view_id: id } }),
    onSuccess: () => client.invalidateQueries({ queryKey: ['views'] }),
    onError: (error) => toast(failureText(error)),
  });
  const rows = views.data?.data ?? [];
  return (
    <Dialog title={t('views.title')} isDrawer onClose={onClose}>
      <div className="fields">
        {views.isError && !views.data ? <Failure error={views.error} retry={() => void views.refetch()} /> : null}
        {views.isPending ? <Loading lines={3} /> : null}
        {views.data && rows.length === 0 ? <p className="muted">{t('views.none')}</p> : null}
        {rows.length > 0 ? (
          <ul className="shares" aria-label={t('views.title')}>
            {rows.map((view) => (
              <li key={view.id} className="row">
                <button
                  type="button"
                  className="plain line"
                  onClick={() => {
                    go(`/${addressOf(view)}`);
                    onClose();
                  }}
                >
                  <span className="cut strong">{view.name}</span>
                </button>
                {writable.some(({ id }) => id === view.organization_id) ? (
                  <button
                    type="button"
                    className="plain icon"
                    aria-label={t('views.delete', { name: view.name })}
                    disabled={remove.isPending}
                    onClick={() => remove.mutate(view.id)}
                  >
                    <Icon name="close" />
                  </button>
                ) : null}
              </li>
            ))}
          </ul>
        ) : null}
        {writable.length > 0 ? <SaveView organizations={writable} /> : null}
      </div>
    </Dialog>
  );
}

function addressOf({ query }: SavedView): string {
  const all = { ...query } as Record<string, string>;
  const pairs = [...kept, 'interval' as const, 'timezone' as const].flatMap((name) => {
    const value = all[name];
    return typeof value === 'string' ? [[name in renamed ? renamed[name as keyof typeof renamed] : name, value]] : [];
  });
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`;
}

interface SaveViewProps {
  readonly organizations: readonly { readonly id: string; readonly name: string }[];
}

function SaveView({ organizations }: SaveViewProps) {
  const { get } = useAddress();
  const [name, setName] = useState('');
  const [organization, setOrganization] = useState(organizations[0]?.id ?? '');
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: () => {
      const { timezone, ...view } = viewOf(get);
      const query = { ...view, ...(get('tz') === null ? {} : { timezone }) };
      return call('POST /views', { body: { name, query, organization_id: organization } });
    },
    onSuccess: async () => {
      setName('');
      toast(t('saved'));
      await client.invalidateQueries({ queryKey: ['views'] });
    },
  });
  const faults = save.error instanceof ApiFailure ? save.error.fields : new Map<string, string>();
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      {save.isError && faults.size === 0 ? <Failure error={save.error} /> : null}
      {organizations.length > 1 ? (
        <Choice
          label={t('app.organization')}
          value={organization}
          options={organizations.map((one) => [one.id, one.name] as const)}
          onChange={setOrganization}
        />
      ) : null}
      <Field
        label={t('views.name')}
        value={name}
        onChange={setName}
        fault={faults.get('name')}
        hint={t('views.hint')}
        isRequired
      />
      <button type="submit" className="primary" disabled={save.isPending}>
        {t('views.save')}
      </button>
    </form>
  );
}
