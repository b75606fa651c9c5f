/**
 * A batch of events in the log as one record: the request's own text, next to what only the edge knows. The edge has
 * checked every event that it does not skip. What follows from an event's text alone (its time, its money, whether it
 * is a conversion) is computed when the batch is read, by the same functions. Decoding never throws.
 */
import { eventTime, isRecordTime } from '#common/event-time.ts';
import { isObject } from '#common/json-object.ts';
import { isConversion, keptRevenue } from '#common/revenue.ts';
import { type EventFault, type EventOrigin, type EventRecord, eventOf, eventPrefix } from './event-record.ts';
import { hasLongNumber, propertiesOfEvents } from './long-numbers.ts';

export const batchEventsMax = 1_000;
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
/** Deeper than any event that the edge accepts. */
const depthMax = 64;

export interface BatchFacts {
  readonly conversion_events: readonly string[];
  /** Campaign and utm fields of links that events name, as JSON text of an object by link id; empty for none. */
  readonly links: string;
  /** From which the ids of events without one are derived. */
  readonly id_base: string;
  /** Indexes of rejected events. */
  readonly skip: readonly number[];
}

const marker = '"batch":{"id_base":"';

/** The text before and after the request's own text, which has no line breaks, in the line of a batch. */
export function aroundEventBatch(origin: EventOrigin, facts: BatchFacts): [head: string, tail: string] {
  const links = facts.links === '' ? '' : `,"links":${facts.links}`;
  const conversions =
    facts.conversion_events.length === 0 ? '' : `,"conversion_events":${JSON.stringify(facts.conversion_events)}`;
  const skip = facts.skip.length === 0 ? '' : `,"skip":[${facts.skip.join(',')}]`;
  return [`${eventPrefix(origin)},${marker}${facts.id_base}"${conversions}${links}${skip},"body":`, '}}'];
}

/**
 * What all events share: four texts of 896 characters together, each of up to twelve bytes if it is escaped, and our
 * own fields.
 */
const headCharsMax = 12_000;

/** Whether a line of the log is a batch; this only checks its beginning, which the sender cannot influence. */
export function isEventBatch(line: string): boolean {
  const at = line.indexOf(marker);
  return at !== -1 && at < headCharsMax && !line.slice(0, at).includes('"sent":');
}

/** The id of the n-th event of a batch, if it has none of its own. */
export function madeId(base: string, n: number): string {
  return base.slice(0, -2) + alphabet.charAt((n >> 5) & 31) + alphabet.charAt(n & 31);
}

export interface BatchMember {
  /** Its index in the request. */
  readonly at: number;
  readonly event: EventRecord | EventFault;
}

/** Every event of a batch that is not skipped, or why the line is invalid. */
export function decodeEventBatch(line: string): BatchMember[] | EventFault {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return 'not_json';
  }
  if (!isObject(value) || !isObject(value['batch'])) return 'not_an_object';
  const { batch, ...known } = value;
  const { body, skip, id_base } = batch;
  if (!isObject(body) || typeof id_base !== 'string') return 'bad_field';
  const events = Object.hasOwn(body, 'events') ? body['events'] : [body];
  if (!Array.isArray(events) || events.length > batchEventsMax) return 'bad_field';
  const skipped = new Set(Array.isArray(skip) ? skip : []);
  const isSuspect = line.includes('\\u') && /\\u(?:0000|[dD][89a-fA-F])/.test(line);
  const cutOut = hasLongNumber(line) ? propertiesOfEvents(line, ['batch', 'body']) : [];
  const members: BatchMember[] = [];
  for (const [at, sent] of events.entries()) {
    if (skipped.has(at)) continue;
    const event = memberOf(known, batch, sent, madeId(id_base, at), isSuspect, cutOut[at] ?? null);
    members.push({ at, event });
  }
  return members;
}

type Fields = Record<string, unknown>;

function memberOf(
  known: Fields,
  batch: Fields,
  sent: unknown,
  id: string,
  isSuspect: boolean,
  cutOut: string | null,
): EventRecord | EventFault {
  if (!isObject(sent)) return 'not_an_object';
  const { received_at } = known;
  if (!isRecordTime(received_at) || !isKeepable(sent, isSuspect, 0)) return 'bad_field';
  const said = eventTime(sent['timestamp'], received_at);
  // It was accepted: if an older edge accepted an invalid time, the time of receipt is used.
  const time = typeof said === 'string' ? received_at : said;
  const revenue = isObject(sent['revenue']) ? keptRevenue(sent['revenue']) : null;
  if (revenue && 'field' in revenue) return 'bad_field';
  const given = sent['event_id'];
  const event_id = typeof given === 'string' && given !== '' ? given : id;
  const links = batch['links'];
  const link_id = sent['link_id'];
  const link = isObject(links) && typeof link_id === 'string' && Object.hasOwn(links, link_id) ? links[link_id] : null;
  const conversions = batch['conversion_events'];
  const is_conversion = isConversion(
    revenue?.amount ?? '',
    sent['name'],
    Array.isArray(conversions) ? conversions : [],
  );
  const decided = {
    event_id,
    time,
    revenue_amount: revenue?.amount ?? '',
    revenue_currency: revenue?.currency ?? '',
    is_conversion,
    is_id_made: event_id === id,
  };
  // Not `{ ...known, event_id, … }`: V8 takes 7 µs for that, and creates long-lived garbage, where this takes 0.1.
  const all: Fields = Object.assign({}, known, isObject(link) ? link : null, decided);
  return eventOf(all, sent, cutOut) ?? 'bad_field';
}

/** Whether it can be serialized again, and every store can hold it. */
function isKeepable(value: unknown, isSuspect: boolean, depth: number): boolean {
  if (typeof value === 'string') return !isSuspect || (!value.includes('\0') && value.isWellFormed());
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || value === null) return true;
  if (depth > depthMax) return false;
  for (const [key, entry] of Object.entries(value)) {
    if (isSuspect && (key.includes('\0') || !key.isWellFormed())) return false;
    if (!isKeepable(entry, isSuspect, depth + 1)) return false;
  }
  return true;
}
