/**
 * A batch of events, read: one parse, and of each event the text as it came. A bad event is refused alone; the batch
 * only when nothing of it can be taken.
 */
import { isAscii } from 'node:buffer';
import { isStorable } from '#common/http/json.ts';
import { type FieldError, invalid, invalidFields, type Rejection } from '#common/http/rejection.ts';
import { bodyValidator } from '#common/http/validation.ts';
import { isId, newId } from '#common/ids.ts';
import { recordCharsMax } from '#common/log/record.ts';
import { ContextSchema, EventSchema } from './event-schema.ts';
import { readRevenue } from './revenue.ts';
import { type Slice, sliceArray, sliceObject } from './slices.ts';
import { eventTime } from './timestamp.ts';

export const EVENTS_MAX = 1_000;
const PROPERTIES_BYTES_MAX = 32_768;
const DEPTH_MAX = 32;
/** Room that the rest of a record takes beside what the app sent. */
const OVERHEAD_CHARS = 8_000;

export interface EventError {
  readonly index: number;
  readonly event_id: string | null;
  readonly code: 'VALIDATION_ERROR' | 'FORBIDDEN';
  readonly field: string;
  readonly message: string;
}

/** An event that passed. */
export interface ReadEvent {
  readonly index: number;
  readonly event_id: string;
  /** The app sent the id itself, so that it may come again. */
  readonly isIdGiven: boolean;
  readonly name: string;
  readonly time: number;
  readonly revenue_amount: string;
  readonly revenue_currency: string;
  readonly link_id: string;
  /** JSON text, without line breaks. */
  readonly sent: string;
}

export interface Batch {
  readonly events: readonly ReadEvent[];
  readonly errors: readonly EventError[];
  readonly context: Readonly<Record<string, string>>;
  /** One bare event was sent, so that its fields have no `events[0].` before them. */
  readonly isSingle: boolean;
}

const checkEvent = bodyValidator(EventSchema);
const checkContext = bodyValidator(ContextSchema);
const decoder = new TextDecoder('utf-8', { fatal: true });

type Fields = Record<string, unknown>;

/** Reads the body of POST /sdk/events. */
export function readBatch(bytes: Uint8Array, nowMs: number): Batch | Rejection {
  if (bytes.byteLength === 0) return invalid('body', 'must be a JSON object, but is empty');
  let text: string;
  let value: unknown;
  try {
    // Text of one byte per character is four times as fast to go through.
    text = isAscii(bytes)
      ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
      : decoder.decode(bytes);
  } catch {
    return invalid('body', 'is not valid UTF-8');
  }
  try {
    value = JSON.parse(text);
  } catch {
    return invalid('body', 'is not valid JSON');
  }
  if (!isFields(value)) return invalid('body', 'must be a JSON object');
  if (!Object.hasOwn(value, 'events')) {
    return collect([value], [sliceObject(text, 0)], text, {}, nowMs, true);
  }
  const { events } = value;
  if (!Array.isArray(events)) return invalid('events', 'must be a list');
  if (events.length === 0) return invalid('events', 'must hold at least one event');
  if (events.length > EVENTS_MAX) return invalid('events', `must hold at most ${EVENTS_MAX} events`);
  const context = value['context'] ?? {};
  if (!isFields(context)) return invalid('context', 'must be an object');
  const faultyContext = contextFault(context);
  if (faultyContext) return faultyContext;
  const areObjects = events.every(isFields);
  const slices = areObjects ? sliceArray(text, 'events') : [];
  return collect(events, slices, text, context, nowMs, false);
}

/** Reads events that another service's client sent, already turned into ours. */
export function readEvents(events: readonly unknown[], nowMs: number): Batch {
  return collect(events, [], '', {}, nowMs, false);
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function contextFault(context: Fields): Rejection | null {
  const fault = checkContext(context);
  const errors: FieldError[] = [...(fault?.errors ?? [])];
  for (const [name, entry] of Object.entries(context)) {
    if (typeof entry === 'string' && !isStorable(entry)) errors.push({ field: name, message: unstorable });
  }
  if (errors.length === 0) return null;
  return invalidFields(
    errors.map(({ field, message }) => ({ field: field === 'body' ? 'context' : `context.${field}`, message })),
  );
}

const contextNames = ['install_id', 'device_id', 'user_id', 'session_id', 'platform'] as const;
const unstorable = 'holds a NUL or half a surrogate pair';

function collect(
  values: readonly unknown[],
  slices: readonly Slice[],
  text: string,
  context: Fields,
  nowMs: number,
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
  // Should the two ever disagree, the values are right and are written out again.
  const known = slices.length === values.length ? slices : [];
  for (const [index, value] of values.entries()) {
    const read = readEvent(value, known[index], text, index, isKnown, nowMs);
    if ('code' in read) errors.push(read);
    else events.push(read);
  }
  return { events, errors, context: shared, isSingle };
}

function readEvent(
  value: unknown,
  slice: Slice | undefined,
  text: string,
  index: number,
  isKnown: boolean,
  nowMs: number,
): ReadEvent | EventError {
  const refused = (field: string, message: string): EventError => {
    const id = isFields(value) ? value['event_id'] : null;
    return {
      index,
      event_id: typeof id === 'string' ? id.slice(0, 64) : null,
      code: 'VALIDATION_ERROR',
      field,
      message,
    };
  };
  if (!isFields(value)) return refused('', 'must be an object');
  const fault = checkEvent(value)?.errors[0];
  if (fault) return refused(fault.field === 'body' ? '' : fault.field, fault.message);
  if ((slice?.depth ?? 99) > DEPTH_MAX || slice?.isSuspicious !== false) {
    const found = faultWithin(value, '', 0);
    if (found) return refused(found.field, found.message);
  }
  if (!isKnown && !value['install_id'] && !value['device_id'] && !value['user_id']) {
    return refused('device_id', 'one of install_id, device_id and user_id is required');
  }
  const time = eventTime(value['timestamp'], nowMs);
  if (typeof time === 'string') return refused('timestamp', time);
  const revenue = isFields(value['revenue']) ? readRevenue(value['revenue']) : null;
  if (revenue && 'field' in revenue) return refused(revenue.field, revenue.message);
  const link_id = textOf(value['link_id']);
  if (link_id !== '' && !isId('lnk', link_id)) return refused('link_id', 'is no link of this app');
  const sent = textSent(value, slice, text);
  if (sent === null) return refused('properties', `must be at most ${PROPERTIES_BYTES_MAX} bytes of JSON`);
  const id = textOf(value['event_id']);
  return {
    index,
    event_id: id === '' ? newId('evt', nowMs) : id,
    isIdGiven: id !== '',
    name: textOf(value['name']),
    time,
    revenue_amount: revenue?.amount ?? '',
    revenue_currency: revenue?.currency ?? '',
    link_id,
    sent,
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** The event's own text, or written anew when it holds line breaks or much that nobody asked for; null if it is too large. */
function textSent(value: Fields, slice: Slice | undefined, text: string): string | null {
  if (slice && !slice.isSuspicious && slice.end - slice.start <= PROPERTIES_BYTES_MAX / 3) {
    return text.slice(slice.start, slice.end);
  }
  const properties = value['properties'];
  if (properties && Buffer.byteLength(JSON.stringify(properties)) > PROPERTIES_BYTES_MAX) return null;
  const known: Fields = {};
  for (const name of knownFields) if (value[name] !== undefined && value[name] !== null) known[name] = value[name];
  const written = JSON.stringify(known);
  return written.length > recordCharsMax - OVERHEAD_CHARS ? null : written;
}

/** What ingest reads of `sent`. */
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

/** What no store can keep as it is. */
function faultWithin(value: unknown, at: string, depth: number): FieldError | null {
  if (typeof value === 'string') return isStorable(value) ? null : { field: at, message: unstorable };
  if (typeof value === 'number') return Number.isFinite(value) ? null : { field: at, message: 'is too large a number' };
  if (typeof value !== 'object' || value === null) return null;
  if (depth >= DEPTH_MAX) return { field: at, message: `is nested more than ${DEPTH_MAX} deep` };
  for (const [key, entry] of Object.entries(value)) {
    if (!isStorable(key)) return { field: at, message: `has a key that ${unstorable}` };
    const field = Array.isArray(value) ? `${at}[${key}]` : at === '' ? key : `${at}.${key}`;
    const found = faultWithin(entry, field, depth + 1);
    if (found) return found;
  }
  return null;
}
