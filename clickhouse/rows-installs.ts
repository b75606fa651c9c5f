/** The one mapping from installs to columns, as RowBinary in the order of the column list. */
import { CAMPAIGN_FIELDS, type CampaignTexts } from '#common/campaign-fields.ts';
import type { RowWriter } from './row-binary.ts';
import { type BatchName, type RowOrigin, writeOrigin } from './rows.ts';

export interface InstallRow extends RowOrigin, CampaignTexts {
  install_id: string;
  organization_id: string;
  app_id: string;
  link_id: string;
  click_id: string;
  /** Epoch milliseconds. */
  time: number;
  /** Epoch milliseconds. */
  installed_at: number;
  device_id: string;
  user_id: string;
  match_id: string;
  match_type: string;
  match_guaranteed: boolean;
  confidence: number;
  attributed: boolean;
  trigger: string;
  platform: string;
  os: string;
  os_version: string;
  device_model: string;
  app_version: string;
  sdk_name: string;
  sdk_version: string;
  language: string;
  country: string;
  region: string;
  city: string;
  ip: string;
  properties: string;
}

const idColumns = ['install_id', 'organization_id', 'app_id', 'link_id', 'click_id'] as const;
const callerColumns = ['device_id', 'user_id', 'match_id', 'match_type'] as const;
const deviceColumns = [
  'trigger',
  'platform',
  'os',
  'os_version',
  'device_model',
  'app_version',
  'sdk_name',
  'sdk_version',
  'language',
  'country',
  'region',
  'city',
  'ip',
  ...CAMPAIGN_FIELDS,
  'properties',
] as const;

export const installColumns: readonly string[] = [
  ...idColumns,
  'time',
  'installed_at',
  ...callerColumns,
  'match_guaranteed',
  'confidence',
  'attributed',
  ...deviceColumns,
  'log_partition',
  'batch_no',
  'producer_id',
  'frame_no',
  'idx',
];

/** One row of `installs`: an install, or a link's opening of an installed app. */
export function writeInstallRow(into: RowWriter, row: InstallRow, batch: BatchName): void {
  for (const name of idColumns) into.string(row[name]);
  into.uint64(row.time);
  into.uint64(row.installed_at);
  for (const name of callerColumns) into.string(row[name]);
  into.bool(row.match_guaranteed);
  into.float64(row.confidence);
  into.bool(row.attributed);
  for (const name of deviceColumns) into.string(row[name]);
  writeOrigin(into, row, batch);
}
