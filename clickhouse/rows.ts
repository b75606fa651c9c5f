/** The one mapping from records to columns: rows of raw tables as JSONCompactEachRow, in the order of the column lists. */
import { jsonText } from '#common/log/record.ts';

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

function pad(n: number, width: number): string {
  return String(n).padStart(width, '0');
}

let secondOfText = -1;
let secondText = '';

/** A time as ClickHouse takes it fastest: `2026-01-31 23:59:59.123`. Rows come nearly in order, so a second is kept. */
export function timeText(epochMs: number): string {
  const second = Math.floor(epochMs / 1000);
  if (second !== secondOfText) {
    secondOfText = second;
    secondText = new Date(second * 1000).toISOString().slice(0, 19).replace('T', ' ');
  }
  return `${secondText}.${pad(epochMs - second * 1000, 3)}`;
}

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
    monthName = `${pad(year, 4)}${pad(month + 1, 2)}`;
  }
  return monthName;
}

/** One row of `clicks` with its newline. Ids, names of ours and numbers need no escape. */
export function clickRowJson(row: ClickRow, batchId: string): string {
  return (
    `["${row.click_id}","${row.organization_id}","${row.app_id}","${row.link_id}","${timeText(row.time)}","${row.ip}",` +
    `${jsonText(row.user_agent)},"${row.platform}",${jsonText(row.os)},${jsonText(row.os_version)},${jsonText(row.browser)},` +
    `${jsonText(row.device_model)},${jsonText(row.language)},"${row.country}",${jsonText(row.referrer_host)},` +
    `${jsonText(row.campaign)},${jsonText(row.utm_source)},${jsonText(row.utm_medium)},${jsonText(row.utm_campaign)},` +
    `${jsonText(row.utm_term)},${jsonText(row.utm_content)},${jsonText(row.query)},"${row.trigger}",${row.is_bot},` +
    `"${row.bot_reason}",${row.visitor},"${batchId}","${row.producer_id}",${row.frame_no},${row.idx}]\n`
  );
}

/** One row of `dead_letters` with its newline. */
export function deadLetterRowJson(row: DeadLetterRow, batchId: string): string {
  return (
    `["${row.kind}","${row.reason}","${timeText(row.time)}",${jsonText(row.record)},"${batchId}",` +
    `"${row.producer_id}",${row.frame_no},${row.idx}]\n`
  );
}
