/** Records of an organization that could not be stored, by reason. */
import type { Question } from './scope.ts';

export interface RefusedRecords {
  readonly kind: string;
  readonly reason: string;
  readonly records: number;
  readonly last_ms: number;
}

/** The records are kept as they were written, cut at some length: the first occurrence is the record's own field. */
export function deadLettersOf(organization_ids: readonly string[], from_ms: number, limit: number): Question {
  return {
    sql: `SELECT kind, reason, count() AS records, toUnixTimestamp64Milli(max(time)) AS last_ms FROM dead_letters
WHERE time >= fromUnixTimestamp64Milli({from_ms:Int64})
  AND has({organization_ids:Array(String)}, extract(record, '"organization_id":"([^"]*)"'))
GROUP BY kind, reason ORDER BY records DESC, kind, reason LIMIT {limit:UInt32}`,
    params: { organization_ids: [...organization_ids], from_ms, limit },
  };
}
