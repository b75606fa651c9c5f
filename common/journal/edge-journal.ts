import { join } from 'node:path';
import type { ProcessConfig } from '#common/process/config-roles.ts';
import { Journal } from './journal.ts';

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
    log,
  });
}
