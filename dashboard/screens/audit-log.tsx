/** The audit log, for owners: who changed what, and when. It contains names of fields, not values. */
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { actorOf } from '#dashboard/actor.ts';
import { useAddress, useView } from '#dashboard/address.ts';
import { type Answer, call, type Query } from '#dashboard/api.ts';
import type { Column } from '#dashboard/csv.ts';
import { time } from '#dashboard/format.ts';
import { useMe } from '#dashboard/me.ts';
import { CsvButton } from '#dashboard/parts/csv-button.tsx';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { PeopleTabs } from '#dashboard/parts/people-tabs.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { useOwned } from '#dashboard/people.ts';
import { named, t } from '#dashboard/texts/text.ts';

type Entry = Answer<'GET /audit-log'>['data'][number];

const pageSize = 50;
const csvRowsMax = 10_000;
const dayMs = 86_400_000;
const periods = ['', '1', '7', '30', '90'] as const;

/** Operations of the API, grouped by what they change. */
const kinds: Readonly<Record<string, readonly string[]>> = {
  people: [
    ...['updateMember', 'removeMember', 'createInvitation', 'deleteInvitation', 'acceptInvitation'],
    ...['acceptOwnInvitation', 'updateOrganization'],
  ],
  accounts: [
    ...[
      'changePassword',
      'resetPassword',
      'completeOAuthLogin',
      'setUpTotp',
      'confirmTotp',
      'disableTotp',
      'deleteSession',
    ],
  ],
  links: [
    ...['createLink', 'updateLink', 'deleteLink', 'upsertLink'],
    ...['bulkCreateLinks', 'bulkUpdateLinks', 'bulkDeleteLinks', 'setLinkPassword', 'deleteLinkPassword'],
  ],
  apps: ['createApp', 'updateApp', 'deleteApp', 'rotateAppKey'],
  keys: ['createServerKey', 'deleteServerKey'],
  webhooks: [
    ...['createWebhook', 'updateWebhook', 'deleteWebhook', 'rotateWebhookSecret', 'testWebhook', 'replayWebhook'],
    ...['createPostback', 'updatePostback', 'deletePostback', 'testPostback', 'replayPostback'],
  ],
  imports: [...['createImport', 'uploadImportPart', 'checkImport', 'confirmImport', 'undoImport', 'deleteImport']],
  figures: ['createCosts', 'createView', 'updateView', 'deleteView'],
};

/** The filters of the URL, as API parameters. */
function useFilters(): { readonly query: Query<'GET /audit-log'>; readonly days: (typeof periods)[number] } {
  const { get } = useAddress();
  const [person, kind, given] = [get('person'), get('kind'), get('days')];
  const days = periods.find((one) => one === given) ?? '';
  return useMemo(() => {
    const actions = kinds[kind ?? ''];
    // Rounded to the minute, so that the query stays the same while the page is open.
    const start = days === '' ? null : new Date(Math.floor(Date.now() / 60_000) * 60_000 - Number(days) * dayMs);
    return {
      days,
      query: {
        ...(person === null ? {} : { actor_id: person }),
        ...(actions === undefined ? {} : { action: actions.join(',') }),
        ...(start === null ? {} : { start: start.toISOString() }),
      },
    };
  }, [person, kind, days]);
}

export function AuditLog() {
  const { get, set } = useAddress();
  const { timezone } = useView();
  const isOwner = useOwned().length > 0;
  const { query: filters, days } = useFilters();
  const offset = Math.max(0, Number(get('offset')) || 0);
  const query = { ...filters, limit: pageSize, offset };
  const log = useQuery({
    queryKey: ['audit-log', query],
    queryFn: () => call('GET /audit-log', { query }),
    enabled: isOwner,
  });
  const rows = log.data?.data ?? [];
  const load = async (limit: number, from: number) => {
    const page = await call('GET /audit-log', { query: { ...filters, limit, offset: from } });
    return { rows: page.data, hasMore: page.pagination.has_more };
  };
  return (
    <div>
      <div className="head">
        <h1>{t('nav.members')}</h1>
        {isOwner ? (
          <div className="row wrap push">
            <PersonChoice rows={rows} />
            <Choice
              label={t('audit.kind')}
              isLabelHidden
              value={get('kind') ?? ''}
              options={[
                ['', t('audit.every_kind')] as const,
                ...Object.keys(kinds).map((kind) => [kind, named('audit', kind)] as const),
              ]}
              onChange={(kind) => set({ kind: kind === '' ? null : kind, offset: null })}
            />
            <Choice
              label={t('period.label')}
              isLabelHidden
              value={days}
              options={periods.map((one) => [one, t(`audit.days${one}`)] as const)}
              onChange={(value) => set({ days: value === '' ? null : value, offset: null })}
            />
            <CsvButton name="audit-log" label={t('export')} columns={csvColumns} rowsMax={csvRowsMax} load={load} />
          </div>
        ) : null}
      </div>
      <PeopleTabs />
      <p className="muted lead">{t('audit.text')}</p>
      {!isOwner ? <p className="notice">{t('audit.owners')}</p> : null}
      {log.isError && !log.data ? <Failure error={log.error} retry={() => void log.refetch()} /> : null}
      {isOwner && !log.isError ? (
        <section className="card">
          {log.isPending ? <Loading /> : null}
          {log.data && rows.length === 0 ? <Empty title={t('audit.none')} text={t('audit.none_text')} /> : null}
          {rows.length > 0 ? <EntryTable rows={rows} zone={timezone} /> : null}
          {log.data && log.data.pagination.total > pageSize ? (
            <Pager {...log.data.pagination} onMove={(next) => set({ offset: next === 0 ? null : String(next) })} />
          ) : null}
        </section>
      ) : null}
    </div>
  );
}

const csvColumns: readonly Column<Entry>[] = [
  ['at', ({ at }) => at],
  ['organization_id', ({ organization_id }) => organization_id],
  ['actor_id', ({ actor_id }) => actor_id],
  ['actor_kind', ({ actor_kind }) => actor_kind],
  ['actor_name', ({ actor_name }) => actor_name],
  ['action', ({ action }) => action],
  ['target_id', ({ target_id }) => target_id],
  ['fields', ({ fields }) => fields.join(' ')],
  ['address', ({ address }) => address],
  ['request_id', ({ request_id }) => request_id],
];

/** The members, and other actors on the page: server keys, and people who have left. */
function PersonChoice({ rows }: { readonly rows: readonly Entry[] }) {
  const { get, set } = useAddress();
  const query = { limit: 100 };
  const members = useQuery({ queryKey: ['members', query], queryFn: () => call('GET /members', { query }) });
  const names = new Map<string, string>();
  for (const { user_id, name, email } of members.data?.data ?? []) names.set(user_id, name || email);
  for (const row of rows) if (!names.has(row.actor_id)) names.set(row.actor_id, actorOf(row));
  const person = get('person') ?? '';
  if (person !== '' && !names.has(person)) names.set(person, person);
  return (
    <Choice
      label={t('members.person')}
      isLabelHidden
      value={person}
      options={[['', t('audit.everyone')] as const, ...names]}
      onChange={(id) => set({ person: id === '' ? null : id, offset: null })}
    />
  );
}

function EntryTable({ rows, zone }: { readonly rows: readonly Entry[]; readonly zone: string }) {
  const { organizations } = useMe();
  const hasMany = organizations.length > 1;
  return (
    <ScrollArea label={t('audit.title')}>
      <table>
        <thead>
          <tr>
            <th>{t('audit.time')}</th>
            <th>{t('members.person')}</th>
            {hasMany ? <th className="hide-narrow">{t('members.organization')}</th> : null}
            <th>{t('audit.change')}</th>
            <th className="hide-narrow">{t('audit.from')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((entry) => (
            <tr key={entry.id}>
              <td className="nowrap muted">{time(entry.at, zone)}</td>
              <td className="breaks">{actorOf(entry)}</td>
              {hasMany ? (
                <td className="hide-narrow">{organizations.find(({ id }) => id === entry.organization_id)?.name}</td>
              ) : null}
              <td className="breaks">
                <div className="two">
                  <span className="strong">{named('action', entry.action)}</span>
                  <span className="muted small hide-narrow">
                    {entry.target_id === '' ? null : <code>{entry.target_id}</code>} {entry.fields.join(', ')}
                  </span>
                </div>
              </td>
              <td className="hide-narrow muted nowrap" title={entry.request_id}>
                {entry.address}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}
