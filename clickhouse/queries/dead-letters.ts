/** Queries the records of organizations that could not be stored, by reason. */
import type { Question } from './scope.ts';

export interface RefusedRecords {
  readonly kind: string;
  readonly reason: string;
  readonly records: number;
  readonly last_ms: number;
}

/**
 * Dead letters are kept as they were written, up to a maximum length. The first occurrence of the field in the text is
 * the record's own.
 */
export function deadLettersOf(organization_ids: readonly string[], from_ms: number, limit: number): Question {
  return {
    sql: `SELECT kind, reason, count() AS records, toUnixTimestamp64Milli(max(time)) AS last_ms FROM dead_letters
WHERE time >= fromUnixTimestamp64Milli({from_ms:Int64})
  AND has({organization_ids:Array(String)}, extract(record, '"organization_id":"([^"]*)"'))
GROUP BY kind, reason ORDER BY records DESC, kind, reason LIMIT {limit:UInt32}`,
    params: { organization_ids: [...organization_ids], from_ms, limit },
  };
}
