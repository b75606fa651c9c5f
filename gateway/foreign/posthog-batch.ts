/**
 * PostHog's captures as events.
 * Source: posthog.com/docs/api/capture (batch: api_key, batch of event, distinct_id, properties, timestamp, uuid).
 */
import { eventTextMax, type SdkPlatform } from '#common/log/event-record.ts';
import { eventIdAt, type Fields, fieldsAt, isFields, revenueIn, textAt } from './fields.ts';

/** What each capture of the batch becomes; what is no capture becomes something that is refused. */
export function posthogEvents(batch: readonly unknown[]): unknown[] {
  return batch.map((capture) => (isFields(capture) ? posthogEvent(capture) : capture));
}

function posthogEvent(capture: Fields): Fields {
  const properties = fieldsAt(capture, 'properties');
  const max = eventTextMax;
  return {
    name: capture['event'],
    event_id: eventIdAt(capture, 'uuid'),
    timestamp: capture['timestamp'],
    user_id: textAt(capture, 'distinct_id', max.user_id) ?? textAt(properties, 'distinct_id', max.user_id),
    device_id: textAt(properties, '$device_id', max.device_id),
    session_id: textAt(properties, '$session_id', max.session_id),
    platform: platformOf(properties),
    properties,
    revenue: revenueIn(properties),
  };
}

function platformOf(properties: Fields): SdkPlatform | undefined {
  const os = textAt(properties, '$os', 64) ?? textAt(properties, '$os_name', 64) ?? '';
  if (/^(ios|ipados)$/i.test(os)) return 'ios';
  if (/^android$/i.test(os)) return 'android';
  return textAt(properties, '$lib', 64) === 'web' ? 'web' : undefined;
}
