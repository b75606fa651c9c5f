/** Imports of links from other services, with their status. */
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { useView } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { time, whole } from '#dashboard/format.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { ImportState } from '#dashboard/parts/import-state.tsx';
import { IntegrationList, useListPart } from '#dashboard/parts/integration-list.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { type Import, refreshMs, useApps } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { ImportForm } from './import-form.tsx';

export function Imports() {
  const query = useListPart();
  const canWrite = useCanWrite();
  const imports = useQuery({
    queryKey: ['imports', query],
    queryFn: () => call('GET /imports', { query }),
    refetchInterval: refreshMs,
  });
  return (
    <IntegrationList
      create={t('imports.new')}
      about={t('imports.text')}
      empty={{ title: t('imports.none'), text: t(canWrite ? 'imports.none_text' : 'imports.none_viewer') }}
      found={imports}
      table={(rows) => <ImportTable rows={rows} />}
      form={(close) => <ImportForm onClose={close} />}
    />
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
