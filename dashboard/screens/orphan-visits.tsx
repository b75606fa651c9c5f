/** Codes that visitors requested and that no link has, with a button that creates the missing link. */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useAddress } from '#dashboard/address.ts';
import { type Answer, call } from '#dashboard/api.ts';
import type { Column } from '#dashboard/csv.ts';
import { ago, whole } from '#dashboard/format.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { AppChoice } from '#dashboard/parts/app-choice.tsx';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { useListPart } from '#dashboard/parts/integration-list.tsx';
import { LinkTabs } from '#dashboard/parts/link-tabs.tsx';
import { ListCsv } from '#dashboard/parts/list-csv.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { useApps } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { LinkForm } from './link-form.tsx';

type Orphan = Answer<'GET /orphan-visits'>['data'][number];

/** The last one is the retention. */
const periods = ['1', '7', '30'] as const;
const addressOf = ({ host, short_code }: Orphan) => `${host}/${short_code}`;

const columns: readonly Column<Orphan>[] = [
  ['host', (row) => row.host],
  ['short_code', (row) => row.short_code],
  ['visits', (row) => row.visits],
  ['last_at', (row) => row.last_at],
  ['reason', (row) => row.reason],
  ['detail', (row) => row.detail ?? ''],
];

export function OrphanVisits() {
  const { get, set } = useAddress();
  const apps = useApps();
  const days = periods.find((one) => one === get('days')) ?? '7';
  const filter = { days: Number(days), app_id: get('app_id') ?? undefined };
  const query = { ...filter, ...useListPart() };
  const found = useQuery({
    queryKey: ['orphan-visits', query],
    queryFn: () => call('GET /orphan-visits', { query }),
  });
  const canWrite = useCanWrite();
  const [missing, setMissing] = useState<Orphan | null>(null);
  const rows = found.data?.data ?? [];
  const pagination = found.data?.pagination;
  const others = found.data?.other_visits ?? 0;
  return (
    <div>
      <div className="head">
        <h1>{t('nav.links')}</h1>
        {rows.length > 0 ? (
          <ListCsv
            name="unknown-codes"
            title={t('orphans.title')}
            columns={columns}
            load={(page) => call('GET /orphan-visits', { query: { ...filter, ...page } })}
          />
        ) : null}
        <div className="row push">
          {(apps.data?.data.length ?? 0) > 1 ? (
            <AppChoice value={get('app_id') ?? null} onChange={(app_id) => set({ app_id, offset: null })} />
          ) : null}
          <Choice
            label={t('period.label')}
            isLabelHidden
            value={days}
            options={periods.map((one) => [one, t(`orphans.days${one}`)] as const)}
            onChange={(value) => set({ days: value === '7' ? null : value, offset: null })}
          />
        </div>
      </div>
      <LinkTabs />
      <p className="muted lead">{t('orphans.text')}</p>
      {found.isError && !found.data ? (
        <Failure error={found.error} retry={() => void found.refetch()} />
      ) : (
        <section className="card">
          {found.isPending ? <Loading /> : null}
          {found.data && rows.length === 0 ? <Empty title={t('orphans.none')} text={t('orphans.none_text')} /> : null}
          {rows.length > 0 ? <OrphanTable rows={rows} onCreate={canWrite ? setMissing : null} /> : null}
          {pagination && pagination.total > pagination.limit ? (
            <Pager {...pagination} onMove={(next) => set({ offset: next === 0 ? null : String(next) })} />
          ) : null}
          {others > 0 ? <p className="caption">{t('orphans.others', { count: whole(others) })}</p> : null}
        </section>
      )}
      {missing ? (
        <LinkForm link={null} appId={missing.app_id} code={missing.short_code} onClose={() => setMissing(null)} />
      ) : null}
    </div>
  );
}

interface OrphanTableProps {
  readonly rows: readonly Orphan[];
  /** Null for a viewer. */
  readonly onCreate: ((orphan: Orphan) => void) | null;
}

function OrphanTable({ rows, onCreate }: OrphanTableProps) {
  return (
    <ScrollArea label={t('orphans.title')}>
      <table>
        <thead>
          <tr>
            <th>{t('orphans.address')}</th>
            <th className="num">{t('orphans.visits')}</th>
            <th className="hide-narrow">{t('orphans.last')}</th>
            <th>
              <span className="sr">{t('links.actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${addressOf(row)} ${row.reason} ${row.detail ?? ''}`}>
              <td className="wide breaks">
                {addressOf(row)}
                {row.reason === 'unknown_code' ? null : (
                  <div className="muted">{t(`orphans.${row.reason}`, { detail: row.detail ?? '' })}</div>
                )}
              </td>
              <td className="num">{whole(row.visits)}</td>
              <td className="hide-narrow muted nowrap" title={row.last_at}>
                {ago(row.last_at)}
              </td>
              <td className="num">
                {onCreate && row.reason === 'unknown_code' ? (
                  <button
                    type="button"
                    aria-label={t('orphans.create_for', { address: addressOf(row) })}
                    onClick={() => onCreate(row)}
                  >
                    {t('orphans.create')}
                  </button>
                ) : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}
