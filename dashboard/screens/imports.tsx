/** Files of links from other services: what became of each. */
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { useAddress, useView } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { time, whole } from '#dashboard/format.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { ImportState } from '#dashboard/parts/import-state.tsx';
import { IntegrationTabs } from '#dashboard/parts/integration-tabs.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { type Import, refreshMs, useApps } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { ImportForm } from './import-form.tsx';

const pageSize = 50;

export function Imports() {
  const { get, set } = useAddress();
  const canWrite = useCanWrite();
  const offset = Math.max(0, Number(get('offset')) || 0);
  const query = { limit: pageSize, offset };
  const imports = useQuery({
    queryKey: ['imports', query],
    queryFn: () => call('GET /imports', { query }),
    refetchInterval: refreshMs,
  });
  const rows = imports.data?.data ?? [];
  return (
    <div>
      <div className="head">
        <h1>{t('nav.integrations')}</h1>
        {canWrite ? (
          <button type="button" className="primary push" onClick={() => set({ new: '1' })}>
            <Icon name="plus" />
            {t('imports.new')}
          </button>
        ) : null}
      </div>
      <IntegrationTabs />
      <p className="muted lead">{t('imports.text')}</p>
      {imports.isError && !imports.data ? (
        <Failure error={imports.error} retry={() => void imports.refetch()} />
      ) : (
        <section className="card">
          {imports.isPending ? <Loading /> : null}
          {imports.data && rows.length === 0 ? (
            <Empty title={t('imports.none')} text={t(canWrite ? 'imports.none_text' : 'imports.none_viewer')} />
          ) : null}
          {rows.length > 0 ? <ImportTable rows={rows} /> : null}
          {imports.data && imports.data.pagination.total > pageSize ? (
            <Pager {...imports.data.pagination} onMove={(next) => set({ offset: next === 0 ? null : String(next) })} />
          ) : null}
        </section>
      )}
      {get('new') !== null && canWrite ? <ImportForm onClose={() => set({ new: null })} /> : null}
    </div>
  );
}

function ImportTable({ rows }: { readonly rows: readonly Import[] }) {
  const { timezone } = useView();
  const apps = useApps().data?.data ?? [];
  return (
    <ScrollArea label={t('imports.title')}>
      <table>
        <thead>
          <tr>
            <th>{t('links.created')}</th>
            <th className="hide-narrow">{t('link.app')}</th>
            <th className="num hide-narrow">{t('imports.rows')}</th>
            <th className="num hide-narrow">{t('imports.result.created')}</th>
            <th>{t('hooks.state')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((one) => (
            <tr key={one.id}>
              <td>
                <div className="two">
                  <Link className="strong" href={`/integrations/imports/${one.id}`}>
                    {named('imports.source', one.source)}
                  </Link>
                  <span className="muted small">{time(one.created_at, timezone)}</span>
                </div>
              </td>
              <td className="hide-narrow">{apps.find(({ id }) => id === one.app_id)?.name ?? one.app_id}</td>
              <td className="num hide-narrow">{whole(one.progress.rows_read)}</td>
              <td className="num hide-narrow">{whole(one.results.created)}</td>
              <td>
                <ImportState state={one.state} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}
