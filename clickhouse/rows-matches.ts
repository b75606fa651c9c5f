/** The one mapping from matches to columns, as RowBinary in the order of the column list. */
import type { RowWriter } from './row-binary.ts';
import { type BatchName, type RowOrigin, writeOrigin } from './rows.ts';

const idColumns = ['match_id', 'organization_id', 'app_id', 'device_id', 'install_id'] as const;
const decisionColumns = ['platform', 'outcome', 'match_type', 'click_id', 'link_id', 'browser', 'ip'] as const;
const shadowColumns = ['shadow_outcome', 'shadow_click_id', 'shadow_link_id'] as const;
type MatchColumn = (typeof idColumns | typeof decisionColumns | typeof shadowColumns)[number];

export interface MatchRow extends RowOrigin, Record<MatchColumn, string> {
  /** Epoch milliseconds. */
  time: number;
  confidence: number;
  competing_links: number;
  shadow_confidence: number;
  duration_us: number;
  /** JSON text. */
  detail: string;
}

export const matchColumns: readonly string[] = [
  ...idColumns,
  'time',
  ...decisionColumns,
  'confidence',
  'competing_links',
  ...shadowColumns,
  'shadow_confidence',
  'duration_us',
  'detail',
  'log_partition',
  'batch_no',
  'producer_id',
  'frame_no',
  'idx',
];

/** One row of `matches`. */
export function writeMatchRow(into: RowWriter, row: MatchRow, batch: BatchName): void {
  for (const name of idColumns) into.string(row[name]);
  into.uint64(row.time);
  for (const name of decisionColumns) into.string(row[name]);
  into.float64(row.confidence);
  into.uint32(row.competing_links);
  for (const name of shadowColumns) into.string(row[name]);
  into.float64(row.shadow_confidence);
  into.uint32(row.duration_us);
  into.string(row.detail);
  writeOrigin(into, row, batch);
}
