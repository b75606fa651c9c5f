/** Why an event was rejected, from a closed list, and an excerpt of it that can be shown. */
import type { ItemRefusalReason } from '#common/log/event-record.ts';
import type { EventError } from './batch.ts';

const byField: Readonly<Record<string, ItemRefusalReason>> = {
  '': 'not_an_object',
  'revenue.currency': 'bad_currency',
  'revenue.amount': 'bad_amount',
  revenue: 'bad_amount',
  name: 'bad_name',
  timestamp: 'bad_time',
  device_id: 'no_identity',
  properties: 'bad_properties',
};

export function reasonOf({ field }: Pick<EventError, 'field'>): ItemRefusalReason {
  return byField[field] ?? (field.startsWith('properties') ? 'bad_properties' : 'bad_field');
}

const excerptCharsMax = 3_000;
const textCharsMax = 256;
const entriesMax = 50;

/**
 * JSON of an item, truncated in depth, width and length until it is short. It remains JSON, so that an erasure finds
 * ids in it.
 */
export function excerptOf(item: unknown): string {
  for (const depth of [4, 2, 1]) {
    const text = JSON.stringify(cutTo(item, depth)) ?? 'null';
    if (text.length <= excerptCharsMax) return text;
  }
  return 'null';
}

function cutTo(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return value.slice(0, textCharsMax).toWellFormed();
  if (typeof value !== 'object' || value === null) return value;
  if (depth === 0) return '…';
  if (Array.isArray(value)) return value.slice(0, entriesMax).map((one) => cutTo(one, depth - 1));
  const entries = Object.entries(value).slice(0, entriesMax);
  return Object.fromEntries(
    entries.map(([key, one]) => [key.slice(0, textCharsMax).toWellFormed(), cutTo(one, depth - 1)]),
  );
}
