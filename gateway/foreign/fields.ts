/** Reading what other services' clients send: fields of an object whose shape is theirs. */
import { hash } from 'node:crypto';
import { eventTextMax } from '#common/log/event-record.ts';
import { decimalOf, isCurrency } from '#common/revenue.ts';

export type Fields = Record<string, unknown>;

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function fieldsAt(value: Fields, name: string): Fields {
  const found = value[name];
  return isFields(found) ? found : {};
}

/** A text or a number as text; undefined for anything else, and for what is empty or too long. */
export function textAt(value: Fields, name: string, max: number): string | undefined {
  const found = value[name];
  const text = typeof found === 'number' ? String(found) : found;
  return typeof text === 'string' && text !== '' && text.length <= max ? text : undefined;
}

/** Their id of a message as our event_id; a longer one by its hash, so that a retry is still the same. */
export function eventIdAt(value: Fields, name: string): string | undefined {
  const id = textAt(value, name, 1024);
  return id !== undefined && id.length > eventTextMax.event_id ? hash('sha256', id, 'hex') : id;
}

/** Money where both services put it; what is no money stays a property. */
export function revenueIn(properties: Fields): Fields | undefined {
  const amount = decimalOf(properties['revenue']);
  if (amount === null) return undefined;
  const currency = textAt(properties, 'currency', 3) ?? 'USD';
  return isCurrency(currency) ? { amount, currency } : undefined;
}
