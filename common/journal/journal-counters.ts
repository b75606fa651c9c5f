/** The counters of a journal, as every edge exposes them on /metrics. */
import type { Registry } from 'prom-client';
import { exposeCounter, exposeGauge } from '#common/process/telemetry.ts';

/** Since the start of the process. */
export function newJournalCounters() {
  return {
    records: 0,
    refused: 0,
    frames: 0,
    bytes: 0,
    writes: 0,
    syncs: 0,
    write_failures: 0,
    sync_failures: 0,
    deleted_segments: 0,
    /** Producers that were given up with unsynced frames. */
    unsynced: 0,
  };
}

export type JournalCounters = ReturnType<typeof newJournalCounters>;

/** `<prefix>_journal_total{what}` and `<prefix>_journal_bytes`. */
export function exposeJournal(
  registry: Registry,
  prefix: string,
  journal: { readonly counters: JournalCounters; readonly bytesOnDisk: number },
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
