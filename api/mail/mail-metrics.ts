/** Metrics of the mail that this process sends. */
import type { Registry } from 'prom-client';
import { exposeCounter } from '#common/process/telemetry.ts';
import type { Mailer } from './mailer.ts';

export function exposeMail(registry: Registry, { counters }: Mailer): void {
  exposeCounter(registry, 'signpost_api_mails_total', 'Mails by outcome.', ['outcome'], (set) => {
    set({ outcome: 'sent' }, counters.sent);
    set({ outcome: 'failed' }, counters.failed);
    set({ outcome: 'limited' }, counters.limited);
  });
  exposeCounter(
    registry,
    'signpost_api_mail_failures_total',
    'Failed attempts to send a mail, by reason.',
    ['reason'],
    (set) => {
      for (const [reason, count] of counters.attempts) set({ reason }, count);
    },
  );
}
