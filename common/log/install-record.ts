/**
 * An install in the log, or a link's opening of an installed app, one JSON object per record. The edge has decided
 * everything but the country.
 */
import { keptAddress } from '#common/address-writer.ts';
import { campaignFrom } from '#common/campaign-fields.ts';
import { isRecordTime } from '#common/event-time.ts';
import { isId } from '#common/ids.ts';
import { isObject } from '#common/json-object.ts';
import { isStorable, type SdkPlatform, sdkPlatforms } from './event-record.ts';
import { hasLongNumber, propertiesIn } from './long-numbers.ts';
import { type PrivacyMode, privacyModes } from './record.ts';
import { type RecordFault, readFields } from './record-fields.ts';

/**
 * Why the app was opened. `install`: for the first time on this device; `reinstall`: for the first time since it was
 * installed again; `reengagement`: by a link, on a device with a known install; `deep_link`: by a link, on any other.
 */
export const openTriggers = ['install', 'reinstall', 'reengagement', 'deep_link'] as const;
export type OpenTrigger = (typeof openTriggers)[number];

/** Longest texts of an install, in characters. */
export const installTextMax = {
  install_id: 128,
  organization_id: 30,
  app_id: 30,
  link_id: 30,
  click_id: 30,
  device_id: 256,
  user_id: 256,
  match_id: 30,
  match_type: 20,
  os_version: 64,
  device_model: 128,
  app_version: 64,
  sdk_name: 64,
  sdk_version: 64,
  language: 64,
  ip: 45,
  ...campaignFrom(() => 255),
} as const;

export type InstallText = keyof typeof installTextMax;
const textNames = Object.keys(installTextMax) as InstallText[];

/** Unknown values are empty. */
export interface InstallRecord extends Record<InstallText, string> {
  trigger: OpenTrigger;
  /** Epoch milliseconds at which it was recorded. */
  time: number;
  /** Epoch milliseconds, according to the app. */
  installed_at: number;
  match_guaranteed: boolean;
  /** 0 to 1. */
  confidence: number;
  attributed: boolean;
  platform: SdkPlatform;
  privacy_mode: PrivacyMode;
  /** JSON text of an object, or empty. */
  properties: string;
}

/** The line of an install, without its newline. */
export function installJson(install: InstallRecord): string {
  const { properties, ip, trigger, ...fields } = install;
  const address = keptAddress(ip, install.privacy_mode);
  const line = JSON.stringify(
    { v: 1, ...fields, ip: address, trigger: trigger === 'install' ? '' : trigger },
    (_key, value: unknown) => (value === '' ? undefined : value),
  );
  return properties === '' ? line : `${line.slice(0, -1)},"properties":${properties}}`;
}

/** The line of an install that turned out to be a reinstall. */
export function reinstallJson(line: string): string {
  return `${line.slice(0, -1)},"trigger":"reinstall"}`;
}

/** Parses the line of an install. Returns a reason for an invalid one, and never throws. */
export function decodeInstall(line: string): InstallRecord | RecordFault {
  const fields = readFields(line, installTextMax, textNames);
  if (typeof fields === 'string') return fields;
  const { value, texts } = fields;
  const { time, installed_at, confidence, properties } = value;
  const platform = sdkPlatforms.find((one) => one === value['platform']);
  const privacy_mode = privacyModes.find((one) => one === value['privacy_mode']);
  const trigger = openTriggers.find((one) => one === (value['trigger'] ?? 'install'));
  if (!isRecordTime(time) || platform === undefined || privacy_mode === undefined) return 'bad_field';
  if (trigger === undefined) return 'bad_field';
  if (typeof confidence !== 'number' || !(confidence >= 0 && confidence <= 1)) return 'bad_field';
  if (!isId('app', texts.app_id) || !isId('org', texts.organization_id) || texts.install_id === '') return 'bad_field';
  const cutOut = hasLongNumber(line) ? propertiesIn(line, []) : null;
  const properties_json = isObject(properties) ? (cutOut ?? JSON.stringify(properties)) : '';
  if (!isStorable(properties)) return 'bad_text';
  return {
    ...texts,
    time,
    // An install that was answered is stored, even if an older edge accepted an impossible time.
    installed_at: isRecordTime(installed_at) ? installed_at : time,
    confidence,
    match_guaranteed: value['match_guaranteed'] === true,
    attributed: value['attributed'] === true,
    trigger,
    platform,
    privacy_mode,
    properties: properties_json,
  };
}
