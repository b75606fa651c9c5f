import { useView } from '#dashboard/address.ts';
import { time } from '#dashboard/format.ts';
import type { Webhook } from '#dashboard/queries.ts';
import { t } from '#dashboard/texts/text.ts';

export function WebhookState({ webhook }: { readonly webhook: Pick<Webhook, 'enabled' | 'failing_since'> }) {
  const { timezone } = useView();
  const { enabled, failing_since: since } = webhook;
  if (!enabled) return <span className="tag bad">{t('hooks.disabled')}</span>;
  if (since !== null) return <span className="tag warn">{t('hooks.failing', { time: time(since, timezone) })}</span>;
  return <span className="tag good">{t('hooks.enabled')}</span>;
}
