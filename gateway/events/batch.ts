/**
 * Reads a batch of events: one parse, and the original bytes for the log. An invalid event is rejected alone; the batch
 * is rejected only if none of its events is valid.
 */
import { eventTime } from '#common/event-time.ts';
import { isStorableText } from '#common/http/json.ts';
import type { RawBody } from '#common/http/raw-body.ts';
import { type FieldError, invalid, invalidFields, type Rejection } from '#common/http/rejection.ts';
import { bodyValidator } from '#common/http/validation.ts';
import { isId } from '#common/ids.ts';
import { isObject } from '#common/json-object.ts';
import type { EventExtras } from '#common/log/event-record.ts';
import { hasLongNumber, propertiesOfEvents } from '#common/log/long-numbers.ts';
import { recordCharsMax } from '#common/log/record.ts';
import { readRevenue } from '#common/revenue.ts';
import { ContextSchema, EventSchema } from './event-schema.ts';

export const EVENTS_MAX = 1_000;
const PROPERTIES_BYTES_MAX = 32_768;
const DEPTH_MAX = 32;
/** Characters reserved in a record for everything that the app did not send. */
const OVERHEAD_CHARS = 8_000;

export interface EventError {
  readonly index: number;
  readonly event_id: string | null;
  readonly code: 'VALIDATION_ERROR' | 'FORBIDDEN';
  readonly field: string;
  readonly message: string;
}

/** When a request was received, by the clock of this process and by that of a store. Epoch ms. */
export interface ReceiptTimes {
  readonly receivedMs: number;
  readonly storeMs: number;
}

/** A valid event. */
export interface ReadEvent {
  readonly index: number;
  /** Empty if the app sent none. */
  readonly event_id: string;
  readonly name: string;
  readonly time: number;
  readonly revenue_amount: string;
  readonly revenue_currency: string;
  readonly link_id: string;
  /** The parsed event. */
  readonly value: Readonly<Record<string, unknown>>;
}

export interface Batch {
  readonly events: readonly ReadEvent[];
  readonly errors: readonly EventError[];
  readonly context: Readonly<Record<string, string>>;
  /** A single bare event was sent, so its field names have no `events[0].` prefix. */
  readonly isSingle: boolean;
  /** The bytes of the request, one character each; null if they cannot go into the log unchanged. */
  readonly line: string | null;
  /** The text of the request; empty if the request had another format. */
  readonly text: string;
  /** The device's address, if a server sends on its behalf. */
  readonly device_ip: string;
  /** The original items from another service's client, by index. */
  readonly foreign?: readonly ForeignEvent[];
}

const checkEvent = bodyValidator(EventSchema);
const checkContext = bodyValidator(ContextSchema);

type Fields = Record<string, unknown>;

/** Reads the body of POST /sdk/events. */
export function readBatch(body: RawBody, times: ReceiptTimes): Batch | Rejection {
  if (body.byteLength === 0) return invalid('body', 'must be a JSON object, but is empty');
  const text = body.text();
  if (text === null) return invalid('body', 'is not valid UTF-8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return invalid('body', 'is not valid JSON');
  }
  if (!isObject(value)) return invalid('body', 'must be a JSON object');
  const source = { line: isLine(text) ? body.latin1 : null, text, isSuspect: text.includes('\\u') };
  if (!Object.hasOwn(value, 'events')) return collect([value], source, {}, times, true);
  const { events } = value;
  if (!Array.isArray(events)) return invalid('events', 'must be a list');
  if (events.length === 0) return invalid('events', 'must contain at least one event');
  if (events.length > EVENTS_MAX) return invalid('events', `must contain at most ${EVENTS_MAX} events`);
  const context = value['context'] ?? {};
  if (!isObject(context)) return invalid('context', 'must be an object');
  return contextFault(context) ?? collect(events, source, context, times, false);
}

/** An item of another service's batch: as received, converted to our event format, and with its additional fields. */
export interface ForeignEvent {
  readonly item: unknown;
  readonly event: unknown;
  readonly extras: EventExtras | null;
}

/** Reads events from another service's client that are already converted to our format. */
export function readEvents(foreign: readonly ForeignEvent[], times: ReceiptTimes): Batch {
  const source = { line: null, text: '', isSuspect: true };
  const events = foreign.map(({ event }) => event);
  return { ...collect(events, source, {}, times, false), foreign };
}

interface Source {
  readonly line: string | null;
  readonly text: string;
  /** Whether it may contain a NUL or an unpaired surrogate, which can only arrive as escapes. */
  readonly isSuspect: boolean;
}

/** A record is one line of limited length. A request that does not fit is rewritten, one record per event. */
function isLine(text: string): boolean {
  return text.length <= recordCharsMax - OVERHEAD_CHARS && !text.includes('\n') && !text.includes('\r');
}

function contextFault(context: Fields): Rejection | null {
  const fault = checkContext(context);
  const errors: FieldError[] = [...(fault?.errors ?? [])];
  for (const [name, entry] of Object.entries(context)) {
    if (typeof entry === 'string' && !isStorableText(entry)) errors.push({ field: name, message: unstorable });
  }
  if (errors.length === 0) return null;
  return invalidFields(
    errors.map(({ field, message }) => ({ field: field === 'body' ? 'context' : `context.${field}`, message })),
  );
}

const contextNames = ['install_id', 'device_id', 'user_id', 'session_id', 'platform'] as const;
export const noIdentity = 'one of install_id, device_id and user_id is required';
const unstorable = 'contains a NUL or an unpaired surrogate';

function collect(
  values: readonly unknown[],
  source: Source,
  context: Fields,
  times: ReceiptTimes,
  isSingle: boolean,
): Batch {
  const events: ReadEvent[] = [];
  const errors: EventError[] = [];
  const shared: Record<string, string> = {};
  for (const name of contextNames) {
    const value = context[name];
    if (typeof value === 'string' && value !== '') shared[name] = value;
  }
  const isKnown = 'install_id' in shared || 'device_id' in shared || 'user_id' in shared;
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    const read = isObject(value)
      ? readEvent(value, source.isSuspect, index, isKnown, times)
      : fault('', 'must be an object');
    if ('message' in read) errors.push(errorOf(value, index, read));
    else events.push(read);
  }
  const device_ip = textOf(context['ip']);
  return { events, errors, context: shared, isSingle, line: source.line, text: source.text, device_ip };
}

function fault(field: string, message: string): FieldError {
  return { field, message };
}

function errorOf(value: unknown, index: number, { field, message }: FieldError): EventError {
  const id = isObject(value) ? value['event_id'] : null;
  const event_id = typeof id === 'string' ? id.slice(0, 64) : null;
  return { index, event_id, code: 'VALIDATION_ERROR', field, message };
}

function readEvent(
  value: Fields,
  isSuspect: boolean,
  index: number,
  isKnown: boolean,
  times: ReceiptTimes,
): ReadEvent | FieldError {
  const refused = checkEvent(value)?.errors[0];
  if (refused) return refused.field === 'body' ? fault('', refused.message) : refused;
  const weight = weightOf(value, 0);
  const within = isSuspect || weight === Number.POSITIVE_INFINITY ? faultWithin(value, '', 0) : null;
  if (within) return within;
  if (weight > PROPERTIES_BYTES_MAX && !areSmall(value['properties'])) {
    return fault('properties', `must be at most ${PROPERTIES_BYTES_MAX} bytes of JSON`);
  }
  if (!isKnown && !value['install_id'] && !value['device_id'] && !value['user_id']) {
    return fault('device_id', noIdentity);
  }
  const time = eventTime(value['timestamp'], times.receivedMs, times.storeMs);
  if (typeof time === 'string') return fault('timestamp', time);
  const revenue = isObject(value['revenue']) ? readRevenue(value['revenue']) : null;
  if (revenue && 'field' in revenue) return revenue;
  const link_id = textOf(value['link_id']);
  if (link_id !== '' && !isId('lnk', link_id)) return fault('link_id', 'is not a link of this app');
  return {
    index,
    event_id: textOf(value['event_id']),
    name: textOf(value['name']),
    time,
    revenue_amount: revenue?.amount ?? '',
    revenue_currency: revenue?.currency ?? '',
    link_id,
    value,
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** An upper bound of its size as JSON; infinite if it contains something that must be inspected. */
function weightOf(value: unknown, depth: number): number {
  if (typeof value === 'string') return 6 * value.length + 3;
  if (typeof value === 'number') return Number.isFinite(value) ? 25 : Number.POSITIVE_INFINITY;
  if (typeof value !== 'object' || value === null) return 6;
  if (depth >= DEPTH_MAX) return Number.POSITIVE_INFINITY;
  let weight = 2;
  if (Array.isArray(value)) {
    for (const entry of value) weight += weightOf(entry, depth + 1);
    return weight;
  }
  if (!isObject(value)) return weight;
  // The only form of this loop that V8 runs without looking up names. Objects made by JSON.parse inherit no enumerable
  // names.
  for (const key in value) weight += 6 * key.length + 4 + weightOf(value[key], depth + 1);
  return weight;
}

function areSmall(properties: unknown): boolean {
  return !properties || Buffer.byteLength(JSON.stringify(properties)) <= PROPERTIES_BYTES_MAX;
}

/** The properties by index, exactly as they were sent, for events in which re-serialization would change a number. */
export function cutOutOf({ text }: Batch): readonly (string | null)[] {
  return hasLongNumber(text) ? propertiesOfEvents(text, []) : [];
}

/** An event serialized for the log separately: only the known fields. */
export function writtenAnew({ value }: ReadEvent, cutOut: string | null): string {
  const known: Fields = {};
  for (const name of knownFields) if (value[name] !== undefined && value[name] !== null) known[name] = value[name];
  if (cutOut === null) return JSON.stringify(known);
  const { properties: _, ...others } = known;
  return `${JSON.stringify(others).slice(0, -1)},"properties":${cutOut}}`;
}

/** The fields of `sent` that ingest reads. */
const knownFields = [
  'name',
  'install_id',
  'device_id',
  'user_id',
  'session_id',
  'platform',
  'link_id',
  'click_id',
  'properties',
] as const;

/** Reports a value that cannot be stored unchanged. */
function faultWithin(value: unknown, at: string, depth: number): FieldError | null {
  if (typeof value === 'string') return isStorableText(value) ? null : { field: at, message: unstorable };
  if (typeof value === 'number')
    return Number.isFinite(value) ? null : { field: at, message: 'is a number out of range' };
  if (typeof value !== 'object' || value === null) return null;
  if (depth >= DEPTH_MAX) return { field: at, message: `is nested more than ${DEPTH_MAX} levels deep` };
  for (const [key, entry] of Object.entries(value)) {
    if (!isStorableText(key)) return { field: at, message: `has a key that ${unstorable}` };
    const field = Array.isArray(value) ? `${at}[${key}]` : at === '' ? key : `${at}.${key}`;
    const found = faultWithin(entry, field, depth + 1);
    if (found) return found;
  }
  return null;
}
