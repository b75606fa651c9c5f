/**
 * The fields of a record that the live feed shows. They identify a person no more than an export does: no address, no
 * user agent, no user id, and no event properties. Ingest has not processed the record yet, so it has no country.
 */
import { isBotAgent } from '#common/bots.ts';
import { familyOf } from '#common/device-family.ts';
import { isRecordTime } from '#common/event-time.ts';
import { isId } from '#common/ids.ts';
import { decodeEvent } from '#common/log/event-record.ts';
import { decodeInstall } from '#common/log/install-record.ts';
import { decodeMatch } from '#common/log/match-record.ts';
import { clickTextMax, type RecordKind } from '#common/log/record.ts';
import { readFields } from '#common/log/record-fields.ts';

export type LiveKind = RecordKind | 'open';

/** Empty strings are omitted. */
export interface LiveRecord {
  readonly kind: LiveKind;
  readonly organization_id: string;
  readonly app_id: string;
  readonly link_id: string;
  readonly device_id: string;
  /** The fields of this kind, as they are sent. */
  readonly shown: Readonly<Record<string, unknown>>;
}

const clickMax = {
  click_id: 30,
  organization_id: 30,
  app_id: 30,
  link_id: 30,
  trigger: 20,
  privacy_mode: 20,
  ...clickTextMax,
} as const;
const clickNames = Object.keys(clickMax) as (keyof typeof clickMax)[];

/** Null for a line that ingest will not store. Never throws. */
export function liveRecordOf(kind: RecordKind, line: string): LiveRecord | null {
  switch (kind) {
    case 'click':
      return clickOf(line);
    case 'install':
      return installOf(line);
    case 'event':
      return eventOf(line);
    case 'match':
      return matchOf(line);
  }
}

function clickOf(line: string): LiveRecord | null {
  const fields = readFields(line, clickMax, clickNames);
  if (typeof fields === 'string') return null;
  const { value, texts } = fields;
  const { click_id, organization_id, app_id, link_id, trigger, user_agent, referrer, campaign } = texts;
  if (!isRecordTime(value['time']) || !isId('clk', click_id) || !isId('org', organization_id)) return null;
  const isBot =
    value['is_preview'] === true || value['is_prefetch'] === true || user_agent === '' || isBotAgent(user_agent);
  const { utm_source, utm_medium, utm_campaign } = texts;
  const referrer_host = URL.canParse(referrer) ? new URL(referrer).hostname : '';
  return {
    ...{ kind: 'click', organization_id, app_id, link_id, device_id: '' },
    shown: {
      ...{ click_id, time: iso(value['time']), trigger, platform: familyOf(user_agent), is_bot: isBot },
      ...{ campaign, utm_source, utm_medium, utm_campaign, referrer_host },
    },
  };
}

function installOf(line: string): LiveRecord | null {
  const record = decodeInstall(line);
  if (typeof record === 'string') return null;
  const { organization_id, app_id, link_id, device_id, trigger, time, platform } = record;
  const { match_id, match_type, match_guaranteed, confidence, attributed, click_id, campaign } = record;
  const { install_id, os_version, device_model, app_version, sdk_name, sdk_version } = record;
  return {
    ...{ kind: trigger === 'install' || trigger === 'reinstall' ? 'install' : 'open' },
    ...{ organization_id, app_id, link_id, device_id },
    shown: {
      ...{ install_id, device_id, time: iso(time), trigger, platform, click_id, campaign },
      ...{ attributed, match_id, match_type, match_guaranteed, confidence },
      ...{ os_version, device_model, app_version, sdk_name, sdk_version },
    },
  };
}

function eventOf(line: string): LiveRecord | null {
  const event = decodeEvent(line);
  if (typeof event === 'string') return null;
  const { organization_id, app_id, link_id, device_id, event_id, name, time, received_at, platform } = event;
  const { install_id, session_id, click_id, campaign, revenue_amount, revenue_currency, is_conversion } = event;
  return {
    ...{ kind: 'event', organization_id, app_id, link_id, device_id },
    shown: {
      ...{ event_id, name, time: iso(time), received_at: iso(received_at), platform },
      ...{ device_id, install_id, session_id, click_id, campaign },
      ...{ revenue_amount, revenue_currency, is_conversion },
    },
  };
}

function matchOf(line: string): LiveRecord | null {
  const match = decodeMatch(line);
  if (typeof match === 'string') return null;
  const { organization_id, app_id, link_id, device_id, match_id, time, platform } = match;
  const { install_id, click_id, outcome, match_type, confidence, competing_links } = match;
  return {
    ...{ kind: 'match', organization_id, app_id, link_id, device_id },
    shown: {
      ...{ match_id, time: iso(time), platform, outcome, match_type, confidence, competing_links },
      ...{ click_id, device_id, install_id },
    },
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
