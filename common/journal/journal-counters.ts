/** The counters of a journal, as every edge exposes them on /metrics. */
import type { Registry } from 'prom-client';
import { exposeCounter, exposeGauge } from '#common/process/telemetry.ts';
import type { Journal } from './journal.ts';

/** `<prefix>_journal_total{what}` and `<prefix>_journal_bytes`. */
export function exposeJournal(
  registry: Registry,
  prefix: string,
  journal: Pick<Journal, 'counters' | 'bytesOnDisk'>,
): void {
  exposeCounter(
    registry,
    `${prefix}_journal_total`,
    'Journal: records, refused, frames, bytes, writes, syncs, failures.',
    ['what'],
    (set) => {
      for (const [what, count] of Object.entries(journal.counters)) set({ what }, count);
    },
  );
  exposeGauge(
    registry,
    `${prefix}_journal_bytes`,
    'Bytes of the journal that are still on disk.',
    () => journal.bytesOnDisk,
  );
}
