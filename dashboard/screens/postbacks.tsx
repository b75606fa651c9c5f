/** The list of postbacks to ad networks, with their events and status. */
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { call } from '#dashboard/api.ts';
import { bare } from '#dashboard/format.ts';
import { useCanWrite } from '#dashboard/me.ts';
import { IntegrationList, useListPart } from '#dashboard/parts/integration-list.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { WebhookState } from '#dashboard/parts/webhook-state.tsx';
import { type Postback, refreshMs } from '#dashboard/queries.ts';
import { named, t } from '#dashboard/texts/text.ts';
import { AdPostbacks } from './ad-postbacks.tsx';
import { PostbackForm } from './postback-form.tsx';

export function Postbacks() {
  const query = useListPart();
  const canWrite = useCanWrite();
  const postbacks = useQuery({
    queryKey: ['postbacks', query],
    queryFn: () => call('GET /postbacks', { query }),
    refetchInterval: refreshMs,
  });
  return (
    <>
      <IntegrationList
        create={t('posts.new')}
        about={t('posts.text')}
        empty={{ title: t('posts.none'), text: t(canWrite ? 'posts.none_text' : 'hooks.none_viewer') }}
        found={postbacks}
        table={(rows) => <PostbackTable rows={rows} />}
        form={(close) => <PostbackForm onClose={close} />}
      />
      <AdPostbacks />
    </>
  );
}

function PostbackTable({ rows }: { readonly rows: readonly Postback[] }) {
  return (
    <ScrollArea label={t('posts.title')}>
      <table>
        <thead>
          <tr>
            <th>{t('posts.template')}</th>
            <th className="hide-narrow">{t('hooks.events')}</th>
            <th>{t('hooks.state')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((postback) => (
            <tr key={postback.id}>
              <td className="wide">
                <div className="two">
                  <Link className="strong cut" href={`/integrations/postbacks/${postback.id}`}>
                    {postback.description || bare(postback.url)}
                  </Link>
                  <span className="muted small cut">
                    {postback.description ? bare(postback.url) : postback.campaigns?.join(', ')}
                  </span>
                </div>
              </td>
              <td className="hide-narrow">
                <span className="row wrap">
                  {postback.events.map((event) => (
                    <span key={event} className="tag">
                      {named('posts.event', event)}
                    </span>
                  ))}
                </span>
              </td>
              <td>
                <WebhookState webhook={postback} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}
