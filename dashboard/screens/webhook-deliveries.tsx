/** The delivery attempts and messages of a webhook, and replaying them. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useAddress, useView } from '#dashboard/address.ts';
import { type Answer, call } from '#dashboard/api.ts';
import { date } from '#dashboard/format.ts';
import { Failure, failureText, Loading, toast } from '#dashboard/parts/feedback.tsx';
import { Choice } from '#dashboard/parts/fields.tsx';
import { Pager } from '#dashboard/parts/pager.tsx';
import { ScrollArea } from '#dashboard/parts/scroll-area.tsx';
import { TabCard } from '#dashboard/parts/tabs.tsx';
import type { Webhook } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';
import { AttemptList, deliveriesRefreshMs, moment, ReplayButton, useOffset } from './attempt-list.tsx';
import { WebhookReplay } from './webhook-replay.tsx';

type Message = Answer<'GET /webhooks/{webhook_id}/messages'>['data'][number];

const pageSize = 25;
const statuses = ['pending', 'delivered', 'failed'] as const;

interface DeliveriesProps {
  readonly webhook: Webhook;
  readonly canWrite: boolean;
}

export function WebhookDeliveries({ webhook, canWrite }: DeliveriesProps) {
  const { get, set } = useAddress();
  const shown = get('show') === 'messages' ? 'messages' : 'attempts';
  const [asks, setAsks] = useState(false);
  const params = { webhook_id: webhook.id };
  const replay = useReplay(webhook.id);
  const onReplay = canWrite ? (message_id: string) => replay.mutate({ message_id }) : null;
  return (
    <>
      <TabCard
        tabs={[
          ['attempts', t('hooks.attempts')],
          ['messages', t('hooks.messages')],
        ]}
        chosen={shown}
        onChoose={(name) => set({ show: name === 'attempts' ? null : name, offset: null, status: null })}
        aside={
          canWrite ? (
            <button type="button" onClick={() => setAsks(true)}>
              {t('hooks.replay_range')}
            </button>
          ) : null
        }
      >
        {shown === 'attempts' ? (
          <AttemptList
            queryKey={['webhook-deliveries', webhook.id]}
            load={(query) => call('GET /webhooks/{webhook_id}/attempts', { params, query })}
            empty={t('hooks.no_attempts')}
            onReplay={onReplay}
          />
        ) : (
          <Messages id={webhook.id} onReplay={onReplay} />
        )}
      </TabCard>
      {asks ? (
        <WebhookReplay
          about={t('hooks.replay_text')}
          queryKey={['webhook-deliveries', webhook.id]}
          send={(body) => call('POST /webhooks/{webhook_id}/replay', { params, body })}
          onClose={() => setAsks(false)}
        />
      ) : null}
    </>
  );
}

function useReplay(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: { message_id: string }) =>
      call('POST /webhooks/{webhook_id}/replay', { params: { webhook_id: id }, body }),
    onSuccess: async () => {
      toast(t('hooks.replayed_one'));
      await client.invalidateQueries({ queryKey: ['webhook-deliveries', id] });
    },
    onError: (error) => toast(failureText(error)),
  });
}

interface ListProps {
  readonly id: string;
  /** Null for a viewer. */
  readonly onReplay: ((messageId: string) => void) | null;
}

const tones = { pending: '', delivered: 'good', failed: 'bad' } as const;

function Messages({ id, onReplay }: ListProps) {
  const { get, set } = useAddress();
  const { timezone } = useView();
  const { offset, onMove } = useOffset();
  const status = statuses.find((one) => one === get('status'));
  const messages = useQuery({
    queryKey: ['webhook-deliveries', id, 'messages', offset, status],
    queryFn: () =>
      call('GET /webhooks/{webhook_id}/messages', {
        params: { webhook_id: id },
        query: { limit: pageSize, offset, ...(status ? { status } : {}) },
      }),
    refetchInterval: deliveriesRefreshMs,
  });
  const choice = (
    <div className="inside row">
      <Choice
        label={t('hooks.state')}
        isLabelHidden
        value={status ?? ''}
        options={[['', t('hooks.all_messages')], ...statuses.map((one) => [one, t(`hooks.status.${one}`)] as const)]}
        onChange={(value) => set({ status: value || null, offset: null })}
      />
    </div>
  );
  if (messages.isError && !messages.data) return <Failure error={messages.error} />;
  if (!messages.data) return <Loading />;
  const { data, pagination } = messages.data;
  return (
    <>
      {choice}
      {data.length === 0 ? (
        <p className="inside muted">{t('hooks.no_messages')}</p>
      ) : (
        <MessageTable rows={data} zone={timezone} onReplay={onReplay} />
      )}
      {pagination.total > pageSize ? <Pager {...pagination} onMove={onMove} /> : null}
    </>
  );
}

interface MessageTableProps {
  readonly rows: readonly Message[];
  readonly zone: string;
  readonly onReplay: ListProps['onReplay'];
}

function MessageTable({ rows, zone, onReplay }: MessageTableProps) {
  return (
    <ScrollArea label={t('hooks.messages')}>
      <table>
        <thead>
          <tr>
            <th>{t('links.created')}</th>
            <th className="hide-narrow">{t('hooks.message')}</th>
            <th>{t('hooks.state')}</th>
            <th className="hide-narrow">{t('hooks.next')}</th>
            <th>
              <span className="sr">{t('links.actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((message) => (
            <tr key={message.id}>
              <td className="nowrap">{date(message.created_at, zone, moment)}</td>
              <td className="hide-narrow">
                <div className="two">
                  <span className="mono">{message.type}</span>
                  <code className="muted small">{message.id}</code>
                </div>
              </td>
              <td>
                <span className="row wrap">
                  <span className={`tag ${tones[message.status]}`}>{t(`hooks.status.${message.status}`)}</span>
                  {message.tries > 0 ? (
                    <span className="muted small">{t('hooks.tries', { count: message.tries })}</span>
                  ) : null}
                </span>
              </td>
              <td className="hide-narrow muted nowrap">
                {message.next_attempt_at ? date(message.next_attempt_at, zone, moment) : ''}
              </td>
              <td className="num">
                <ReplayButton id={message.id} onReplay={onReplay} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  );
}
