/** Replays the messages of a webhook or postback in a time range. */
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Answer, ApiFailure, type Body } from '#dashboard/api.ts';
import { whole } from '#dashboard/format.ts';
import { localTime } from '#dashboard/local-time.ts';
import { Dialog } from '#dashboard/parts/dialog.tsx';
import { Failure, toast } from '#dashboard/parts/feedback.tsx';
import { Choice, Field } from '#dashboard/parts/fields.tsx';
import { t } from '#dashboard/texts/text.ts';

const dayMs = 86_400_000;
const minuteMs = 60_000;

interface WebhookReplayProps {
  readonly about: string;
  readonly send: (body: Body<'POST /webhooks/{webhook_id}/replay'>) => Promise<Replayed>;
  /** Query keys of the lists that it changes. */
  readonly queryKey: readonly string[];
  readonly onClose: () => void;
}
type Replayed = Answer<'POST /webhooks/{webhook_id}/replay'>;

export function WebhookReplay({ about, send, queryKey, onClose }: WebhookReplayProps) {
  const client = useQueryClient();
  const [from, setFrom] = useState(() => localTime(Date.now() - dayMs));
  const [to, setTo] = useState(() => localTime(Date.now() + minuteMs));
  const [status, setStatus] = useState<'' | 'failed' | 'delivered'>('failed');
  const replay = useMutation({
    mutationFn: () =>
      send({
        from: new Date(from).toISOString(),
        to: new Date(to).toISOString(),
        ...(status === '' ? {} : { status }),
      }),
    onSuccess: async ({ replayed, has_more }) => {
      toast(t(has_more ? 'hooks.replayed_more' : 'hooks.replayed', { count: whole(replayed) }));
      onClose();
      await client.invalidateQueries({ queryKey });
    },
  });
  const faults = replay.error instanceof ApiFailure ? replay.error.fields : new Map<string, string>();
  return (
    <Dialog title={t('hooks.replay_range')} onClose={onClose}>
      <form
        className="panel"
        onSubmit={(event) => {
          event.preventDefault();
          replay.mutate();
        }}
      >
        <div className="fields">
          {replay.isError && faults.size === 0 ? <Failure error={replay.error} /> : null}
          <p className="muted small">{about}</p>
          <Field
            label={t('hooks.from')}
            type="datetime-local"
            value={from}
            onChange={setFrom}
            fault={faults.get('from')}
            isRequired
            hasFocus
          />
          <Field
            label={t('hooks.to')}
            type="datetime-local"
            value={to}
            onChange={setTo}
            fault={faults.get('to')}
            isRequired
          />
          <Choice
            label={t('hooks.state')}
            value={status}
            options={[
              ['failed', t('hooks.status.failed')],
              ['delivered', t('hooks.status.delivered')],
              ['', t('hooks.all_done')],
            ]}
            onChange={setStatus}
          />
        </div>
        <footer>
          <button type="button" onClick={onClose}>
            {t('cancel')}
          </button>
          <button type="submit" className="primary" disabled={replay.isPending}>
            {t('hooks.replay')}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
