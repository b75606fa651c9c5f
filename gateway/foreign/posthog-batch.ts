/**
 * Converts PostHog's captures to events. Source: posthog.com/docs/api/capture (batch: api_key, batch of event,
 * distinct_id, properties, timestamp, uuid), and the client packages.
 */
import { utmFrom } from '#common/campaign-fields.ts';
import { isObject } from '#common/json-object.ts';
import { eventTextMax, type SdkPlatform } from '#common/log/event-record.ts';
import type { EventError } from '#gateway/events/batch.ts';
import {
  aliasOf,
  campaignAt,
  errorAsSent,
  eventIdAt,
  type Fields,
  type ForeignCall,
  type ForeignItem,
  fieldsAt,
  revenueIn,
  type SentNames,
  sentRevenue,
  storableTextAt,
  textAt,
} from './fields.ts';
import { type Receipt, timeByOurClock } from './sent-time.ts';

/** Captures that PostHog's clients send automatically, and for which other services have separate calls. */
const calls: ReadonlyMap<unknown, ForeignCall> = new Map([
  ['$identify', 'identify'],
  ['$set', 'identify'],
  ['$groupidentify', 'group'],
  ['$create_alias', 'alias'],
  ['$pageview', 'page'],
  ['$pageleave', 'page'],
  ['$screen', 'screen'],
  // Captured automatically by the browser SDK, unless its settings disable them.
  ...[
    ...['$autocapture', '$rageclick', '$dead_click', '$copy_autocapture', '$$heatmap', '$web_vitals'],
    ...['$performance_event', '$exception', '$snapshot', '$feature_flag_called', '$opt_in'],
  ].map((name) => [name, 'automatic'] as const),
]);

/** Classifies a capture. Invalid input becomes an event that is rejected later. */
export function posthogItem(capture: unknown, receipt: Receipt): ForeignItem {
  if (!isObject(capture)) return { item: capture, event: capture, extras: null };
  const properties = fieldsAt(capture, 'properties');
  const call = calls.get(capture['event']);
  if (call !== undefined) return { call, alias: aliasIn(call, capture, properties) };
  const max = eventTextMax;
  const event = {
    name: capture['event'],
    event_id: eventIdAt(capture, 'uuid'),
    timestamp: timeByOurClock(capture['timestamp'], receipt) ?? timeBefore(receipt.receivedMs, capture['offset']),
    user_id: personOf(capture, properties),
    device_id: textAt(properties, '$device_id', max.device_id),
    session_id: textAt(properties, '$session_id', max.session_id),
    platform: platformOf(properties),
    properties: capture['properties'],
    revenue: revenueIn(properties),
  };
  const extras = { device_ip: storableTextAt(properties, '$ip', 45), aliases: [], utm: utmOf(properties) };
  return { item: capture, event, extras };
}

const names: SentNames = {
  ...sentRevenue,
  name: 'event',
  event_id: 'uuid',
  user_id: 'distinct_id',
  device_id: 'distinct_id',
  session_id: 'properties.$session_id',
};

export function posthogError(error: EventError): EventError {
  return errorAsSent(error, names, 'distinct_id and properties.$device_id');
}

/** Older browser SDKs send how many milliseconds ago something happened instead of a time. */
function timeBefore(receivedMs: number, offset: unknown): number | undefined {
  return typeof offset === 'number' && offset >= 0 && offset < receivedMs ? Math.round(receivedMs - offset) : undefined;
}

/** The id of a person who is not identified is the device's id. */
function personOf(capture: Fields, properties: Fields): string | undefined {
  const id = userOf(capture, properties);
  return id === properties['$device_id'] ? undefined : id;
}

function userOf(capture: Fields, properties: Fields): string | undefined {
  const max = eventTextMax.user_id;
  return textAt(capture, 'distinct_id', max) ?? textAt(properties, 'distinct_id', max);
}

/**
 * `$create_alias` names the older id as `alias`; `$identify` of a previously anonymous user names `$anon_distinct_id`.
 */
function aliasIn(call: ForeignCall, capture: Fields, properties: Fields) {
  const user = userOf(capture, properties);
  if (call === 'alias') return aliasOf(textAt(properties, 'alias', eventTextMax.user_id), user);
  return call === 'identify' ? aliasOf(user, textAt(properties, '$anon_distinct_id', eventTextMax.user_id)) : null;
}

/** The browser SDK puts the campaign of the visit into the event's properties, under the names that links use. */
function utmOf(properties: Fields): Record<string, string> {
  return utmFrom((name) => campaignAt(properties, name));
}

function platformOf(properties: Fields): SdkPlatform | undefined {
  const os = textAt(properties, '$os', 64) ?? textAt(properties, '$os_name', 64) ?? '';
  if (/^(ios|ipados)$/i.test(os)) return 'ios';
  if (/^android$/i.test(os)) return 'android';
  return textAt(properties, '$lib', 64) === 'web' ? 'web' : undefined;
}
