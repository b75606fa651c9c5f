/**
 * Segment's calls as events.
 * Source: segment.com/docs/connections/sources/catalog/libraries/server/http-api and .../spec (common fields, six calls).
 */
import { eventTextMax, type SdkPlatform } from '#common/log/event-record.ts';
import { eventIdAt, type Fields, fieldsAt, isFields, revenueIn, textAt } from './fields.ts';

/** What each message of the batch becomes; what is no message becomes something that is refused. */
export function segmentEvents(batch: readonly unknown[]): unknown[] {
  return batch.map((message) => (isFields(message) ? segmentEvent(message) : message));
}

function segmentEvent(message: Fields): Fields {
  const context = fieldsAt(message, 'context');
  const { name, properties } = callOf(message);
  const event: Fields = {
    name,
    event_id: eventIdAt(message, 'messageId'),
    timestamp: message['timestamp'] ?? message['originalTimestamp'],
    user_id: textAt(message, 'userId', eventTextMax.user_id),
    device_id:
      textAt(message, 'anonymousId', eventTextMax.device_id) ??
      textAt(fieldsAt(context, 'device'), 'id', eventTextMax.device_id),
    session_id: textAt(context, 'sessionId', eventTextMax.session_id),
    platform: platformOf(context),
    properties,
    revenue: message['type'] === 'track' ? revenueIn(properties) : undefined,
  };
  return event;
}

/** `track` has a name of its own; the other calls are named after themselves. */
function callOf(message: Fields): { name: unknown; properties: Fields } {
  const { type } = message;
  const properties = fieldsAt(message, 'properties');
  switch (type) {
    case 'track':
      return { name: message['event'], properties };
    case 'page':
    case 'screen': {
      const { name, category } = message;
      return {
        name: type,
        properties: { ...(category ? { category } : {}), ...(name ? { name } : {}), ...properties },
      };
    }
    case 'identify':
      return { name: type, properties: fieldsAt(message, 'traits') };
    case 'group':
      return { name: type, properties: { group_id: message['groupId'], ...fieldsAt(message, 'traits') } };
    case 'alias':
      return { name: type, properties: { previous_id: message['previousId'] } };
    default:
      return { name: undefined, properties };
  }
}

function platformOf(context: Fields): SdkPlatform | undefined {
  const text = `${textAt(fieldsAt(context, 'device'), 'type', 64) ?? ''} ${textAt(fieldsAt(context, 'os'), 'name', 64) ?? ''}`;
  if (/\b(ios|ipados)\b/i.test(text)) return 'ios';
  if (/\bandroid\b/i.test(text)) return 'android';
  return textAt(fieldsAt(context, 'library'), 'name', 64) === 'analytics.js' ? 'web' : undefined;
}
