/** The changes to a link, by whom and when. Only owners can read the audit log. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { actorOf } from '#dashboard/actor.ts';
import { useView } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { time } from '#dashboard/format.ts';
import type { Link } from '#dashboard/link-draft.ts';
import { useMe } from '#dashboard/me.ts';
import { Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { useApps } from '#dashboard/queries.ts';
import { named, type TextKey, t } from '#dashboard/texts/text.ts';

const pageSize = 10;
/** Fields are named as in the link form; parameters keep their own names. */
const fieldTexts: Readonly<Record<string, TextKey>> = {
  fallback_url: 'link.destination',
  short_code: 'link.code',
  campaign: 'link.campaign',
  title: 'link.title',
  tags: 'link.tags',
  path: 'link.path',
  ios_url: 'link.ios',
  android_url: 'link.android',
  expires_at: 'link.expires',
  expired_url: 'link.expired_url',
  archived: 'link.archived',
  app_id: 'link.app',
  rules: 'rules.title',
};

const fieldName = (field: string) => (fieldTexts[field] ? t(fieldTexts[field]) : field);

export function LinkHistory({ link }: { readonly link: Link }) {
  const { organizations } = useMe();
  const organization = useApps().data?.data.find(({ id }) => id === link.app_id)?.organization_id;
  const isOwner = organizations.some(({ id, role }) => id === organization && role === 'owner');
  return isOwner && organization ? (
    <History id={link.id} updatedAt={link.updated_at} organization={organization} />
  ) : null;
}

interface HistoryProps {
  readonly id: string;
  /** Changing the link adds an entry to its history. */
  readonly updatedAt: string;
  readonly organization: string;
}

function History({ id, updatedAt, organization }: HistoryProps) {
  const { timezone } = useView();
  const [offset, setOffset] = useState(0);
  const query = { organization_id: organization, target_id: id, limit: pageSize, offset };
  const found = useQuery({
    queryKey: ['link-history', query, updatedAt],
    queryFn: () => call('GET /audit-log', { query }),
    placeholderData: keepPreviousData,
  });
  if (found.isError && !found.data) return <Failure error={found.error} retry={() => void found.refetch()} />;
  const rows = found.data?.data ?? [];
  return (
    <section className="card" aria-label={t('history.title')}>
      <header>
        <h2>{t('history.title')}</h2>
      </header>
      {found.data ? null : <Loading lines={3} />}
      {found.data && rows.length === 0 ? <p className="inside muted">{t('history.none')}</p> : null}
      {rows.length > 0 ? (
        <div className="scroll">
          <table>
            <thead>
              <tr>
                <th>{t('chart.time')}</th>
                <th>{t('history.who')}</th>
                <th>{t('history.what')}</th>
                <th className="hide-narrow">{t('history.fields')}</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((entry) => (
                <tr key={entry.id}>
                  <td className="nowrap">{time(entry.at, timezone)}</td>
                  <td>{actorOf(entry)}</td>
                  <td>{named('history.action', entry.action)}</td>
                  <td className="hide-narrow">
                    <span className="row wrap">
                      {entry.fields.map((field) => (
                        <span key={field} className="tag" title={field}>
                          {fieldName(field)}
                        </span>
                      ))}
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      {found.data && found.data.pagination.total > pageSize ? (
        <Pager {...found.data.pagination} onMove={setOffset} />
      ) : null}
      <p className="caption">{t('history.text')}</p>
    </section>
  );
}
