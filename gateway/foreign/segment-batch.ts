/**
 * Converts Segment's calls to events.
 * Source: segment.com/docs/connections/sources/catalog/libraries/server/http-api and .../spec (common fields, six
 * calls).
 */
import { isObject } from '#common/json-object.ts';
import { eventTextMax, type SdkPlatform } from '#common/log/event-record.ts';
import type { EventError } from '#gateway/events/batch.ts';
import {
  aliasOf,
  campaignAt,
  errorAsSent,
  eventIdAt,
  type Fields,
  type ForeignItem,
  fieldsAt,
  revenueIn,
  type SentNames,
  sentRevenue,
  storableTextAt,
  textAt,
} from './fields.ts';
import { type Receipt, timeByOurClock } from './sent-time.ts';

/** Calls that are not events. */
const segmentCalls = ['identify', 'group', 'alias', 'page', 'screen'] as const;

/** Classifies a message. Invalid input becomes an event that is rejected later. */
export function segmentItem(message: unknown, { receivedMs, sentAt }: Receipt): ForeignItem {
  if (!isObject(message)) return { item: message, event: message, extras: null };
  const max = eventTextMax;
  const user_id = textAt(message, 'userId', max.user_id);
  const anonymous = textAt(message, 'anonymousId', max.device_id);
  const call = segmentCalls.find((one) => one === message['type']);
  if (call !== undefined) {
    const previous = textAt(message, 'previousId', max.device_id);
    return { call, alias: call === 'alias' ? aliasOf(user_id ?? anonymous, previous) : null };
  }
  const context = fieldsAt(message, 'context');
  const device = textAt(fieldsAt(context, 'device'), 'id', max.device_id);
  const event = {
    name: message['type'] === 'track' ? message['event'] : undefined,
    event_id: eventIdAt(message, 'messageId'),
    timestamp: timeByOurClock(message['timestamp'] ?? message['originalTimestamp'], {
      receivedMs,
      sentAt: message['sentAt'] ?? sentAt,
    }),
    user_id,
    device_id: anonymous ?? device,
    session_id: textAt(context, 'sessionId', max.session_id),
    platform: platformOf(context),
    properties: message['properties'],
    revenue: revenueIn(fieldsAt(message, 'properties')),
  };
  const other = aliasOf(anonymous, device)?.previous_id;
  const aliases = other === undefined ? [] : [other];
  const extras = { device_ip: storableTextAt(context, 'ip', 45), aliases, utm: utmOf(fieldsAt(context, 'campaign')) };
  return { item: message, event, extras };
}

const names: SentNames = {
  ...sentRevenue,
  name: 'event',
  event_id: 'messageId',
  user_id: 'userId',
  device_id: 'anonymousId',
  session_id: 'context.sessionId',
};

export function segmentError(error: EventError, message: unknown): EventError {
  if (error.field === 'name' && isObject(message) && message['type'] !== 'track') {
    return { ...error, field: 'type', message: `must be one of track, ${segmentCalls.join(', ')}` };
  }
  return errorAsSent(error, names, 'anonymousId, userId and context.device.id');
}

function utmOf(campaign: Fields): Record<string, string> {
  return {
    utm_source: campaignAt(campaign, 'source'),
    utm_medium: campaignAt(campaign, 'medium'),
    utm_campaign: campaignAt(campaign, 'name'),
    utm_term: campaignAt(campaign, 'term'),
    utm_content: campaignAt(campaign, 'content'),
  };
}

function platformOf(context: Fields): SdkPlatform | undefined {
  const text = `${textAt(fieldsAt(context, 'device'), 'type', 64) ?? ''} ${textAt(fieldsAt(context, 'os'), 'name', 64) ?? ''}`;
  if (/\b(ios|ipados)\b/i.test(text)) return 'ios';
  if (/\bandroid\b/i.test(text)) return 'android';
  return textAt(fieldsAt(context, 'library'), 'name', 64) === 'analytics.js' ? 'web' : undefined;
}
