/** The one mapping from records to columns: rows of the raw tables as RowBinary, in the order of the column lists. */
import type { RowWriter } from './row-binary.ts';

/** Where a row comes from, so that each can be found again, counted, and told from a copy. */
export interface RowOrigin {
  readonly producer_id: string;
  readonly frame_no: number;
  /** Place of the record in its frame, from 0. */
  readonly idx: number;
}

export interface ClickRow extends RowOrigin {
  click_id: string;
  organization_id: string;
  app_id: string;
  link_id: string;
  /** Epoch milliseconds. */
  time: number;
  ip: string;
  user_agent: string;
  platform: string;
  os: string;
  os_version: string;
  browser: string;
  device_model: string;
  language: string;
  country: string;
  referrer_host: string;
  campaign: string;
  utm_source: string;
  utm_medium: string;
  utm_campaign: string;
  utm_term: string;
  utm_content: string;
  query: string;
  trigger: string;
  is_bot: boolean;
  bot_reason: string;
  visitor: number;
}

export interface DeadLetterRow extends RowOrigin {
  kind: string;
  reason: string;
  /** Epoch milliseconds at which the edge wrote it. */
  time: number;
  record: string;
}

export const clickColumns: readonly string[] = [
  'click_id',
  'organization_id',
  'app_id',
  'link_id',
  'time',
  'ip',
  'user_agent',
  'platform',
  'os',
  'os_version',
  'browser',
  'device_model',
  'language',
  'country',
  'referrer_host',
  'campaign',
  'utm_source',
  'utm_medium',
  'utm_campaign',
  'utm_term',
  'utm_content',
  'query',
  'trigger',
  'is_bot',
  'bot_reason',
  'visitor',
  'batch_id',
  'producer_id',
  'frame_no',
  'idx',
];

export const deadLetterColumns: readonly string[] = [
  'kind',
  'reason',
  'time',
  'record',
  'batch_id',
  'producer_id',
  'frame_no',
  'idx',
];

let monthFrom = 0;
let monthTo = 0;
let monthName = '';

/** The partition of the raw tables that a time falls into: toYYYYMM in UTC. */
export function partitionOf(epochMs: number): string {
  if (epochMs < monthFrom || epochMs >= monthTo) {
    const date = new Date(epochMs);
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
    monthFrom = Date.UTC(year, month);
    monthTo = Date.UTC(year, month + 1);
    monthName = `${year}${String(month + 1).padStart(2, '0')}`;
  }
  return monthName;
}

/** One row of `clicks`. */
export function writeClickRow(into: RowWriter, row: ClickRow, batchId: string): void {
  into.string(row.click_id);
  into.string(row.organization_id);
  into.string(row.app_id);
  into.string(row.link_id);
  into.uint64(row.time);
  into.string(row.ip);
  into.string(row.user_agent);
  into.string(row.platform);
  into.string(row.os);
  into.string(row.os_version);
  into.string(row.browser);
  into.string(row.device_model);
  into.string(row.language);
  into.string(row.country);
  into.string(row.referrer_host);
  into.string(row.campaign);
  into.string(row.utm_source);
  into.string(row.utm_medium);
  into.string(row.utm_campaign);
  into.string(row.utm_term);
  into.string(row.utm_content);
  into.string(row.query);
  into.string(row.trigger);
  into.bool(row.is_bot);
  into.string(row.bot_reason);
  into.uint64(row.visitor);
  writeOrigin(into, row, batchId);
}

/** One row of `dead_letters`. */
export function writeDeadLetterRow(into: RowWriter, row: DeadLetterRow, batchId: string): void {
  into.string(row.kind);
  into.string(row.reason);
  into.uint64(row.time);
  into.string(row.record);
  writeOrigin(into, row, batchId);
}

/** The columns that say where a row comes from; the last ones of every raw table. */
export function writeOrigin(into: RowWriter, row: RowOrigin, batchId: string): void {
  into.string(batchId);
  into.string(row.producer_id);
  into.uint64(row.frame_no);
  into.uint32(row.idx);
}
