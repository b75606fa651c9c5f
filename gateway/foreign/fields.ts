/** Helpers for reading the objects that other services' clients send, whose shape we do not control. */
import { hash } from 'node:crypto';
import { isStorableText } from '#common/http/json.ts';
import { isObject } from '#common/json-object.ts';
import { eventTextMax } from '#common/log/event-record.ts';
import { type EventError, type ForeignEvent, noIdentity } from '#gateway/events/batch.ts';

export type Fields = Record<string, unknown>;

/** Calls that identify a user, report a page view, or are captured automatically; none of them is an event. */
export type ForeignCall = 'identify' | 'group' | 'alias' | 'page' | 'screen' | 'automatic';

/** Two identifiers of one device or user: events under `id` belong to the install of `previous_id`. */
export interface Alias {
  readonly id: string;
  readonly previous_id: string;
}

/** The classification of an item: an event, or another call. */
export type ForeignItem = ForeignEvent | { readonly call: ForeignCall; readonly alias: Alias | null };

/** The contents of a request. */
export interface SentItems {
  readonly items: readonly unknown[];
  /** How an error refers to an item; empty if the item is the whole body. */
  readonly nameOf: (index: number) => string;
  /** Values of the fields that may contain a key. */
  readonly keys: readonly (readonly [field: string, key: unknown])[];
  /** The time of sending according to the client. */
  readonly sentAt: unknown;
}

export function fieldsAt(value: Fields, name: string): Fields {
  const found = value[name];
  return isObject(found) ? found : {};
}

/** A string or a number as text; undefined for other values, and if it is empty or too long. */
export function textAt(value: Fields, name: string, max: number): string | undefined {
  const found = value[name];
  const text = typeof found === 'number' ? String(found) : found;
  return typeof text === 'string' && text !== '' && text.length <= max ? text : undefined;
}

/** As `textAt`; empty if it is absent or cannot be stored. */
export function storableTextAt(value: Fields, name: string, max: number): string {
  const found = textAt(value, name, max) ?? '';
  return isStorableText(found) ? found : '';
}

const campaignCharsMax = 255;

/** A campaign field; empty if it is absent or cannot be stored. */
export function campaignAt(value: Fields, name: string): string {
  return storableTextAt(value, name, campaignCharsMax);
}

/** The client's message id as our event_id; a longer one as its hash, so that a retry has the same id. */
export function eventIdAt(value: Fields, name: string): string | undefined {
  const id = textAt(value, name, 1024);
  return id !== undefined && id.length > eventTextMax.event_id ? hash('sha256', id, 'hex') : id;
}

/** The client's names for an event's fields. */
export type SentNames = Readonly<Record<string, string>>;

/**
 * Renames the error's field to the client's name.
 * @param identities the client's fields that identify a device or user.
 */
export function errorAsSent(error: EventError, names: SentNames, identities: string): EventError {
  const message = error.message === noIdentity ? `one of ${identities} is required` : error.message;
  return { ...error, field: names[error.field] ?? error.field, message };
}

/** Both services put money in the same fields. */
export const sentRevenue: SentNames = {
  revenue: 'properties.revenue',
  'revenue.amount': 'properties.revenue',
  'revenue.currency': 'properties.currency',
};

/**
 * Reads the fields in which both services put money. Nothing is filled in: an amount without a currency is rejected, as
 * in our own events.
 */
export function revenueIn(properties: Fields): Fields | undefined {
  const { revenue: amount, currency } = properties;
  if (amount === undefined || amount === null) return undefined;
  return currency === undefined || currency === null ? { amount } : { amount, currency };
}

export function aliasOf(id: string | undefined, previous_id: string | undefined): Alias | null {
  if (id === undefined || previous_id === undefined || id === previous_id) return null;
  return isStorableText(id) && isStorableText(previous_id) ? { id, previous_id } : null;
}
