/** An integration page: a description, a list, and a form in a drawer for users who may write. */
import type { UseQueryResult } from '@tanstack/react-query';
import type { ComponentProps, ReactNode } from 'react';
import { useAddress } from '#dashboard/address.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { t } from '#dashboard/texts/text.ts';
import { Empty, Failure, Loading } from './feedback.tsx';
import { Icon } from './icons.tsx';
import { IntegrationTabs } from './integration-tabs.tsx';
import { Pager } from './pager.tsx';

const pageSize = 50;

/** The page of the list according to the URL. */
export function useListPart(): { readonly limit: number; readonly offset: number } {
  const { get } = useAddress();
  return { limit: pageSize, offset: Math.max(0, Number(get('offset')) || 0) };
}

interface IntegrationListProps<Row> {
  readonly create: string;
  /** Saves the list as a file. */
  readonly csv?: ReactNode;
  readonly about: string;
  readonly empty: { readonly title: string; readonly text: string };
  readonly found: UseQueryResult<{
    readonly data: readonly Row[];
    readonly pagination: Omit<ComponentProps<typeof Pager>, 'onMove'>;
  }>;
  readonly table: (rows: readonly Row[]) => ReactNode;
  readonly form: (onClose: () => void) => ReactNode;
}

export function IntegrationList<Row>({ create, csv, about, empty, found, table, form }: IntegrationListProps<Row>) {
  const { get, set } = useAddress();
  const canWrite = useCanWrite();
  const rows = found.data?.data ?? [];
  return (
    <div>
      <div className="head">
        <h1>{t('nav.integrations')}</h1>
        {rows.length > 0 ? csv : null}
        {canWrite ? (
          <button type="button" className="primary push" onClick={() => set({ new: '1' })}>
            <Icon name="plus" />
            {create}
          </button>
        ) : null}
      </div>
      <IntegrationTabs />
      <p className="muted lead">{about}</p>
      {found.isError && !found.data ? (
        <Failure error={found.error} retry={() => void found.refetch()} />
      ) : (
        <section className="card">
          {found.isPending ? <Loading /> : null}
          {found.data && rows.length === 0 ? <Empty {...empty} /> : null}
          {rows.length > 0 ? table(rows) : null}
          {found.data && found.data.pagination.total > pageSize ? (
            <Pager {...found.data.pagination} onMove={(next) => set({ offset: next === 0 ? null : String(next) })} />
          ) : null}
        </section>
      )}
      {get('new') !== null && canWrite ? form(() => set({ new: null })) : null}
    </div>
  );
}
