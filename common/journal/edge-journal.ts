import { join } from 'node:path';
import type { ProcessConfig } from '#common/process/config-roles.ts';
import { Journal } from './journal.ts';

/**
 * The process of a launcher that was killed ends only after its last answers; the process of the next launcher waits for
 * that.
 */
const slotWaitMs = 30_000;

/** Opens the journal of an edge process, as configured. @throws as `Journal.open` does. */
export function openEdgeJournal(
  config: ProcessConfig<'gateway' | 'redirector'>,
  slot: string,
  log: (line: string) => void,
): Promise<Journal> {
  return Journal.open({
    root: join(config.DATA_DIR, 'journal'),
    slot,
    segmentBytes: config.JOURNAL_SEGMENT_BYTES,
    bytesMax: config.JOURNAL_BYTES_MAX,
    sync: config.JOURNAL_SYNC,
    slotWaitMs,
    log,
  });
}
