/** Turns match records into rows. Each record is written once and is complete, so nothing is looked up or deduplicated. */
import type { RowOrigin } from '#clickhouse/rows.ts';
import type { MatchRow } from '#clickhouse/rows-matches.ts';
import { decodeMatch } from '#common/log/match-record.ts';
import type { RecordRejection } from './record-decoder.ts';
import { normalizedIp, storedIp } from './stored-address.ts';

export function matchRow(line: string, origin: RowOrigin): MatchRow | RecordRejection {
  const record = decodeMatch(line);
  if (typeof record === 'string') return { reason: record };
  return { ...record, ...origin, ip: storedIp(normalizedIp(record.ip), record.privacy_mode) };
}
