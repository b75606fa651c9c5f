/** The list of webhooks, with their events and status. */
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { call } from '#dashboard/api.ts';
import { bare } from '#dashboard/format.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { IntegrationList, useListPart } from '#dashboard/parts/integration-list.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { WebhookState } from '#dashboard/parts/webhook-state.tsx';
import { refreshMs, type Webhook } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { WebhookForm } from './webhook-form.tsx';

export function Webhooks() {
  const query = useListPart();
  const canWrite = useCanWrite();
  const webhooks = useQuery({
    queryKey: ['webhooks', query],
    queryFn: () => call('GET /webhooks', { query }),
    refetchInterval: refreshMs,
  });
  return (
    <IntegrationList
      create={t('hooks.new')}
      about={t('hooks.text')}
      empty={{ title: t('hooks.none'), text: t(canWrite ? 'hooks.none_text' : 'hooks.none_viewer') }}
      found={webhooks}
      table={(rows) => <WebhookTable rows={rows} />}
      form={(close) => <WebhookForm onClose={close} />}
    />
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
