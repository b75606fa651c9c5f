/** The webhooks of the organizations, each with what it gets and whether it works. */
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { useAddress } from '#dashboard/address.ts';
import { call } from '#dashboard/api.ts';
import { bare } from '#dashboard/format.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { Empty, Failure, Loading } from '#dashboard/parts/feedback.tsx';
import { Icon } from '#dashboard/parts/icons.tsx';
import { IntegrationTabs } from '#dashboard/parts/integration-tabs.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { WebhookState } from '#dashboard/parts/webhook-state.tsx';
import { refreshMs, type Webhook } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { WebhookForm } from './webhook-form.tsx';

const pageSize = 50;

export function Webhooks() {
  const { get, set } = useAddress();
  const canWrite = useCanWrite();
  const offset = Math.max(0, Number(get('offset')) || 0);
  const query = { limit: pageSize, offset };
  const webhooks = useQuery({
    queryKey: ['webhooks', query],
    queryFn: () => call('GET /webhooks', { query }),
    refetchInterval: refreshMs,
  });
  const rows = webhooks.data?.data ?? [];
  return (
    <div>
      <div className="head">
        <h1>{t('nav.integrations')}</h1>
        {canWrite ? (
          <button type="button" className="primary push" onClick={() => set({ new: '1' })}>
            <Icon name="plus" />
            {t('hooks.new')}
          </button>
        ) : null}
      </div>
      <IntegrationTabs />
      <p className="muted lead">{t('hooks.text')}</p>
      {webhooks.isError && !webhooks.data ? (
        <Failure error={webhooks.error} retry={() => void webhooks.refetch()} />
      ) : (
        <section className="card">
          {webhooks.isPending ? <Loading /> : null}
          {webhooks.data && rows.length === 0 ? (
            <Empty title={t('hooks.none')} text={t(canWrite ? 'hooks.none_text' : 'hooks.none_viewer')} />
          ) : null}
          {rows.length > 0 ? <WebhookTable rows={rows} /> : null}
          {webhooks.data && webhooks.data.pagination.total > pageSize ? (
            <Pager {...webhooks.data.pagination} onMove={(next) => set({ offset: next === 0 ? null : String(next) })} />
          ) : null}
        </section>
      )}
      {get('new') !== null && canWrite ? <WebhookForm onClose={() => set({ new: null })} /> : null}
    </div>
  );
}

function WebhookTable({ rows }: { readonly rows: readonly Webhook[] }) {
  return (
    <ScrollArea label={t('hooks.title')}>
      <table>
        <thead>
          <tr>
            <th>{t('hooks.url')}</th>
            <th className="hide-narrow">{t('hooks.events')}</th>
            <th>{t('hooks.state')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((webhook) => (
            <tr key={webhook.id}>
              <td className="wide">
                <div className="two">
                  <Link className="strong cut" href={`/integrations/webhooks/${webhook.id}`}>
                    {bare(webhook.url)}
                  </Link>
                  {webhook.description ? <span className="muted small cut">{webhook.description}</span> : null}
                </div>
              </td>
              <td className="hide-narrow">
                <span className="row wrap">
                  {webhook.events.map((event) => (
                    <span key={event} className="tag mono">
                      {event}
                    </span>
                  ))}
                </span>
              </td>
              <td>
                <WebhookState webhook={webhook} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}
