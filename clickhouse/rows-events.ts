/** The one mapping from events to columns, as RowBinary in the order of the column list. */
import { CAMPAIGN_FIELDS, type CampaignTexts } from '#common/campaign-fields.ts';
import { scaled } from '#common/decimal.ts';
import type { RowWriter } from './row-binary.ts';
import { type BatchName, type RowOrigin, writeOrigin } from './rows.ts';

export interface EventRow extends RowOrigin, CampaignTexts {
  event_id: string;
  organization_id: string;
  app_id: string;
  name: string;
  /** Epoch milliseconds. */
  time: number;
  /** Epoch milliseconds. */
  received_at: number;
  install_id: string;
  device_id: string;
  user_id: string;
  session_id: string;
  link_id: string;
  click_id: string;
  platform: string;
  country: string;
  region: string;
  city: string;
  /** A decimal, or empty for none. */
  revenue_amount: string;
  revenue_currency: string;
  is_conversion: boolean;
  properties: string;
  /** The keys under which the event waits for its install; empty unless no install was found. */
  waiting_keys: readonly string[];
}

export const eventColumns: readonly string[] = [
  'event_id',
  'organization_id',
  'app_id',
  'name',
  'time',
  'received_at',
  'install_id',
  'device_id',
  'user_id',
  'session_id',
  'link_id',
  'click_id',
  'platform',
  'country',
  'region',
  'city',
  ...CAMPAIGN_FIELDS,
  'revenue_amount',
  'revenue_currency',
  'is_conversion',
  'properties',
  'waiting_keys',
  'log_partition',
  'batch_no',
  'producer_id',
  'frame_no',
  'idx',
];

/** One row of `events`. */
export function writeEventRow(into: RowWriter, row: EventRow, batch: BatchName): void {
  into.string(row.event_id);
  into.string(row.organization_id);
  into.string(row.app_id);
  into.string(row.name);
  into.uint64(row.time);
  into.uint64(row.received_at);
  into.string(row.install_id);
  into.string(row.device_id);
  into.string(row.user_id);
  into.string(row.session_id);
  into.string(row.link_id);
  into.string(row.click_id);
  into.string(row.platform);
  into.string(row.country);
  into.string(row.region);
  into.string(row.city);
  into.string(row.campaign);
  into.string(row.utm_source);
  into.string(row.utm_medium);
  into.string(row.utm_campaign);
  into.string(row.utm_term);
  into.string(row.utm_content);
  into.bool(row.revenue_amount === '');
  if (row.revenue_amount !== '') into.int128(scaled(row.revenue_amount));
  into.string(row.revenue_currency);
  into.bool(row.is_conversion);
  into.string(row.properties);
  into.strings(row.waiting_keys);
  writeOrigin(into, row, batch);
}

export const learnedEventColumns: readonly string[] = [...eventColumns, 'sign', 'is_learned'];

/** One row of `events` that reverses another (-1), or replaces it (1). */
export function writeLearnedEventRow(into: RowWriter, row: EventRow, sign: 1 | -1, batch: BatchName): void {
  writeEventRow(into, row, batch);
  into.int8(sign);
  into.bool(true);
}
