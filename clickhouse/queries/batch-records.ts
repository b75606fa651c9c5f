/** Queries the records of one batch that webhooks report to tenants. The records of an erased person have no id. */
import { isInstall } from '#clickhouse/rollups.ts';
import type { Question } from './scope.ts';

/** A batch of ingest, and when its rows of a table happened. */
export interface BatchPlace {
  readonly log_partition: number;
  readonly batch_no: number;
  /** Epoch milliseconds, both inclusive. */
  readonly from_ms: number;
  readonly to_ms: number;
}

const campaign = ['campaign', 'utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content'] as const;
const device = ['platform', 'os', 'os_version', 'device_model'] as const;

/** The fields of a record in a webhook, its id first. Addresses and user agents are not sent. */
export const webhookColumns = {
  clicks: [
    ...([
      'click_id',
      'app_id',
      'link_id',
      'time',
      ...device,
      'browser',
      'language',
      'country',
      'region',
      'city',
    ] as const),
    ...(['referrer_host', ...campaign, 'trigger', 'rule', 'is_bot', 'bot_reason'] as const),
  ],
  installs: [
    ...(['install_id', 'app_id', 'link_id', 'click_id', 'time', 'installed_at', 'device_id', 'user_id'] as const),
    ...(['match_id', 'match_type', 'match_guaranteed', 'confidence', 'attributed', 'trigger', ...device] as const),
    ...([
      'app_version',
      'sdk_name',
      'sdk_version',
      'language',
      'country',
      'region',
      'city',
      ...campaign,
      'properties',
    ] as const),
  ],
  events: [
    ...(['event_id', 'app_id', 'name', 'time', 'received_at', 'install_id', 'device_id', 'user_id'] as const),
    ...(['session_id', 'link_id', 'click_id', 'platform', 'country', 'region', 'city', ...campaign] as const),
    ...(['revenue_amount', 'revenue_currency', 'is_conversion', 'properties'] as const),
  ],
  matches: [
    ...(['match_id', 'app_id', 'time', 'platform', 'device_id', 'install_id', 'outcome'] as const),
    ...(['confidence', 'competing_links'] as const),
  ],
} as const;

export type WebhookTable = keyof typeof webhookColumns;

/** Times in ISO 8601, amounts as exact text. */
export const webhookSettings = { date_time_output_format: 'iso', output_format_json_quote_decimals: 1 } as const;

const ofBatch = `log_partition = {log_partition:UInt16} AND batch_no = {batch_no:UInt64}
  AND time >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC') AND time <= fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')`;

/** The numbers of the batches of a partition in a range, for batches that Postgres does not know. */
export function batchesBetween(log_partition: number, from: number, to: number): Question {
  const tables = Object.keys(webhookColumns).map(
    (table) =>
      `SELECT DISTINCT batch_no FROM ${table} WHERE log_partition = {log_partition:UInt16} AND batch_no BETWEEN {from:UInt64} AND {to:UInt64}`,
  );
  return {
    sql: `SELECT DISTINCT batch_no FROM (${tables.join(' UNION ALL ')}) ORDER BY batch_no`,
    params: { log_partition, from, to },
  };
}

/** How many clicks each app of these organizations has in a batch, those of erased people too. */
export function clicksOfBatch(organization_ids: readonly string[], place: BatchPlace): Question {
  return {
    sql: `SELECT organization_id, app_id, count() AS clicks, toUnixTimestamp64Milli(max(time)) AS time_ms FROM clicks
WHERE organization_id IN {organization_ids:Array(String)} AND ${ofBatch}
GROUP BY organization_id, app_id`,
    params: { organization_ids, ...place },
  };
}

/**
 * Some clicks of a batch, always in the same order. Clicks of erased people are left out but keep their place, so that
 * an erasure moves no other click to another part. @param app_ids the apps whose clicks were counted; null: all.
 * @param wanted_apps the only apps whose clicks are returned; null: all.
 */
export function clicksOfPart(
  organization_id: string,
  app_ids: readonly string[] | null,
  place: BatchPlace,
  page: { readonly limit: number; readonly offset: number },
  wanted_apps: readonly string[] | null,
): Question {
  const apps = app_ids === null ? '' : ' AND app_id IN {app_ids:Array(String)}';
  const wanted = wanted_apps === null ? '' : ' AND app_id IN {wanted_apps:Array(String)}';
  const columns = webhookColumns.clicks.join(', ');
  return {
    sql: `SELECT ${columns} FROM (SELECT ${columns}, producer_id, frame_no, idx FROM clicks
WHERE organization_id = {organization_id:String}${apps} AND ${ofBatch}
ORDER BY producer_id, frame_no, idx LIMIT {limit:UInt32} OFFSET {offset:UInt32})
WHERE click_id != ''${wanted} ORDER BY producer_id, frame_no, idx`,
    params: { organization_id, app_ids: app_ids ?? [], wanted_apps: wanted_apps ?? [], ...page, ...place },
  };
}

/** The condition for rows that are records, and not openings, reversals or later attributions of one. */
const isRecord: Record<Exclude<WebhookTable, 'clicks'>, string> = {
  installs: `install_id != '' AND ${isInstall}`,
  events: "event_id != '' AND sign = 1 AND NOT is_learned",
  matches: "match_id != '' AND outcome IN {outcomes:Array(String)}",
};

export interface RecordFilter {
  readonly organization_ids: readonly string[];
  /** For events: their names; conversions are included as well if `hasConversions`. */
  readonly names: readonly string[];
  readonly hasConversions: boolean;
  /** For matches. */
  readonly outcomes: readonly string[];
}

/** Installs, events or matches of a batch, with the place of each in the log. */
export function recordsOfBatch(
  table: Exclude<WebhookTable, 'clicks'>,
  { organization_ids, names, hasConversions, outcomes }: RecordFilter,
  place: BatchPlace,
): Question {
  const wanted =
    table === 'events' ? ` AND (name IN {names:Array(String)}${hasConversions ? ' OR is_conversion' : ''})` : '';
  return {
    sql: `SELECT organization_id, ${webhookColumns[table].join(', ')}, toUnixTimestamp64Milli(time) AS time_ms, producer_id, frame_no, idx
FROM ${table} WHERE organization_id IN {organization_ids:Array(String)} AND ${ofBatch} AND ${isRecord[table]}${wanted}
ORDER BY producer_id, frame_no, idx`,
    params: { organization_ids, names, outcomes, ...place },
  };
}
