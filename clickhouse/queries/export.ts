/** Queries raw records in storage order, so that streaming them needs no memory. */
import type { Settings } from '#clickhouse/client.ts';
import { isInstall, rawKinds } from '#clickhouse/rollups.ts';
import { CAMPAIGN_FIELDS } from '#common/campaign-fields.ts';
import { type Question, rawTimeCondition, type Scope, scopeParams, tenantCondition } from './scope.ts';

const context = CAMPAIGN_FIELDS;

/** What can be exported: openings are in the table of installs. */
export const exportKinds = [...rawKinds, 'opens'] as const;
export type ExportKind = (typeof exportKinds)[number];

const device =
  'platform os os_version device_model app_version sdk_name sdk_version language country region city ip'.split(' ');

/** Exported columns, the id first; the columns about the origin of a row stay internal. */
export const exportColumns: Record<ExportKind, readonly string[]> = {
  clicks: [
    ...'click_id organization_id app_id link_id time ip user_agent platform os os_version browser'.split(' '),
    ...'device_model language country region city referrer_host'.split(' '),
    ...context,
    ...'query trigger rule is_bot bot_reason'.split(' '),
  ],
  installs: [
    ...'install_id organization_id app_id link_id click_id time installed_at device_id user_id match_id'.split(' '),
    ...'match_type match_guaranteed confidence attributed trigger'.split(' '),
    ...device,
    ...context,
    'properties',
  ],
  opens: [
    ...'match_id organization_id app_id link_id click_id time trigger device_id'.split(' '),
    ...'match_type match_guaranteed confidence'.split(' '),
    ...device,
    ...context,
  ],
  events: [
    ...'event_id organization_id app_id name time received_at install_id device_id user_id'.split(' '),
    ...'session_id link_id click_id platform country region city'.split(' '),
    ...context,
    ...'revenue_amount revenue_currency is_conversion properties'.split(' '),
  ],
  matches: [
    ...'match_id organization_id app_id link_id click_id time platform device_id install_id outcome match_type'.split(
      ' ',
    ),
    ...'confidence competing_links browser ip shadow_outcome shadow_click_id shadow_link_id shadow_confidence'.split(
      ' ',
    ),
    ...'duration_us detail'.split(' '),
  ],
};

/** The row after which to continue. */
export interface ExportPosition {
  readonly organization_id: string;
  readonly app_id: string;
  readonly link_id: string;
  readonly time_ms: number;
  readonly id: string;
}

/** Exports times in ISO 8601 and amounts as exact text. One thread reads in order; more would only use more memory. */
export const exportSettings: Settings = {
  date_time_output_format: 'iso',
  output_format_json_quote_decimals: 1,
  max_threads: 1,
  max_block_size: 8192,
  max_memory_usage: 1_000_000_000,
  max_execution_time: 3_600,
  max_rows_to_read: 20_000_000_000,
  max_result_rows: 0,
};

export function exportRows(kind: ExportKind, scope: Scope, after: ExportPosition | null): Question {
  const columns = exportColumns[kind];
  const id = columns[0];
  const day = kind === 'matches' ? '' : 'toDate(time), link_id, ';
  const order = `organization_id, app_id, ${day}time, ${id}`;
  const from = after
    ? ` AND organization_id >= {after_organization:String}
  AND (${order}) > ({after_organization:String}, {after_app:String}, ${day === '' ? '' : "toDate(fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')), {after_link:String},"}
    fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC'), {after_id:String})`
    : '';
  const bots = kind === 'clicks' && !scope.include_bots ? ' AND NOT is_bot' : '';
  const opened = kind === 'installs' ? ` AND ${isInstall}` : kind === 'opens' ? ` AND NOT (${isInstall})` : '';
  const place = 'log_partition, producer_id, frame_no, idx';
  const table = kind === 'opens' ? 'installs' : kind;
  const range = `${tenantCondition(scope, table)} AND ${rawTimeCondition(scope)}`;
  // A reversed row is next to its reversal, with the same tenant, time and other columns.
  const latest =
    kind === 'events'
      ? ` AND sign = 1 AND (is_learned OR (${place}) NOT IN (SELECT ${place} FROM events WHERE ${range} AND sign = -1))`
      : '';
  return {
    sql: `SELECT ${columns.join(', ')}, toUnixTimestamp64Milli(time) AS time_ms FROM ${table}
WHERE ${range}${bots}${opened}${latest}${from}
ORDER BY ${order}`,
    params: {
      ...scopeParams(scope),
      ...(after
        ? {
            after_organization: after.organization_id,
            after_app: after.app_id,
            after_link: after.link_id,
            after_ms: after.time_ms,
            after_id: after.id,
          }
        : {}),
    },
  };
}
