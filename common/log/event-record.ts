/**
 * An event in the log, one JSON object per record. What the app sent is passed on unchanged under `sent`; next to it is
 * what only the edge knows (who sent it, when, from where) and what it decided (id, time, money, conversion). The edge
 * checked `sent` against the schema of events; the decoder here checks it again and never throws.
 */
import { addressNetworkOf } from '#common/address-writer.ts';
import type { CampaignTexts } from '#common/campaign-fields.ts';
import { isRecordTime } from '#common/event-time.ts';
import { isId } from '#common/ids.ts';
import { isObject } from '#common/json-object.ts';
import { hasLongNumber, propertiesIn } from './long-numbers.ts';
import { fits, jsonText, type PrivacyMode, privacyModes } from './record.ts';

export const sdkPlatforms = ['ios', 'android', 'web'] as const;
export type SdkPlatform = (typeof sdkPlatforms)[number];

/** Longest texts of an event, in characters. */
export const eventTextMax = {
  name: 128,
  event_id: 64,
  install_id: 128,
  device_id: 256,
  user_id: 256,
  session_id: 128,
  link_id: 64,
  click_id: 64,
} as const;

export type EventText = keyof typeof eventTextMax;

/** An event as ingest gets it. Unknown values are empty. */
export interface EventRecord extends CampaignTexts {
  event_id: string;
  organization_id: string;
  app_id: string;
  name: string;
  /** Epoch milliseconds, according to the app. */
  time: number;
  /** Epoch milliseconds of its receipt. */
  received_at: number;
  /** The sender's network. */
  ip: string;
  /** The network of the device, if a server sent it on the device's behalf. */
  device_ip: string;
  privacy_mode: PrivacyMode;
  platform: SdkPlatform | '';
  install_id: string;
  device_id: string;
  /** Other names of the device, by which its install may be known. */
  aliases: readonly string[];
  user_id: string;
  session_id: string;
  link_id: string;
  click_id: string;
  /** A decimal with at most 9 places, or empty. */
  revenue_amount: string;
  revenue_currency: string;
  is_conversion: boolean;
  /** The edge generated the event_id, so no other event can have it. */
  is_id_made: boolean;
  /** JSON text of an object, or empty. */
  properties: string;
}

/** What all events of one request have in common. */
export interface EventOrigin {
  readonly organization_id: string;
  readonly app_id: string;
  readonly received_at: number;
  /** The sender's address. */
  readonly ip: string;
  /** The device's address, if a server sent the request on its behalf. */
  readonly device_ip?: string;
  readonly privacy_mode: PrivacyMode;
  /** Values for events that do not set them. */
  readonly defaults: Readonly<Partial<Record<'platform' | EventText, string>>>;
}

/** The beginning of the line of every event of one request. */
export function eventPrefix(origin: EventOrigin): string {
  let text =
    `{"v":1,"organization_id":"${origin.organization_id}","app_id":"${origin.app_id}"` +
    `,"received_at":${origin.received_at},"privacy_mode":"${origin.privacy_mode}"`;
  // It only gives the country: no row of an event has an address.
  if (origin.privacy_mode !== 'no_ip')
    text += addressJson('ip', origin.ip) + addressJson('device_ip', origin.device_ip ?? '');
  for (const [name, value] of Object.entries(origin.defaults)) if (value) text += `,"${name}":${jsonText(value)}`;
  return text;
}

function addressJson(name: 'ip' | 'device_ip', ip: string): string {
  const network = addressNetworkOf(ip);
  return network === '' ? '' : `,"${name}":"${network}"`;
}

/** What another service's client sends in addition to the event, each field in the app's own words. */
export interface EventExtras {
  readonly device_ip: string;
  readonly aliases: readonly string[];
  /** `utm_*` of the campaign that the client names. */
  readonly utm: Readonly<Record<string, string>>;
}

/** The extras as JSON members that begin with a comma, or empty. */
export function extrasJson({ device_ip, aliases, utm }: EventExtras, mode: PrivacyMode): string {
  let text = mode === 'no_ip' ? '' : addressJson('device_ip', device_ip);
  if (aliases.length > 0) text += `,"aliases":${JSON.stringify(aliases)}`;
  for (const [name, value] of Object.entries(utm)) if (value !== '') text += `,"${name}":${jsonText(value)}`;
  return text;
}

/** What the edge decided about one event. */
export interface EventDecision {
  readonly event_id: string;
  readonly time: number;
  readonly revenue_amount: string;
  readonly revenue_currency: string;
  readonly is_conversion: boolean;
  readonly is_id_made: boolean;
  /** Fields of the event's own link and its extras, as JSON members that begin with a comma, or empty. */
  readonly linkFields: string;
}

/** The line of an event, without its newline. `sent` is the JSON text of the event as the app sent it. */
export function eventJson(prefix: string, decision: EventDecision, sent: string): string {
  let text = `${prefix},"event_id":${jsonText(decision.event_id)},"time":${decision.time}`;
  if (decision.revenue_amount !== '') {
    text += `,"revenue_amount":"${decision.revenue_amount}","revenue_currency":"${decision.revenue_currency}"`;
  }
  if (decision.is_conversion) text += ',"is_conversion":true';
  if (decision.is_id_made) text += ',"is_id_made":true';
  return `${text}${decision.linkFields},"sent":${sent}}`;
}

/** Why the edge rejected an item of another service's client. */
export const refusalReasons = [
  'bad_currency',
  'bad_amount',
  'bad_name',
  'bad_time',
  'bad_properties',
  'no_identity',
  'not_an_object',
  'bad_field',
] as const;
export type ItemRefusalReason = (typeof refusalReasons)[number];
export type EventFault = 'not_json' | 'bad_text' | ItemRefusalReason;

/**
 * The line of a rejected item: it becomes a dead letter. `excerpt` is JSON text of the part of it that can be shown.
 */
export function refusedJson(prefix: string, reason: ItemRefusalReason, message: string, excerpt: string): string {
  return `${prefix},"refused":"${reason}","message":${jsonText(message)},"excerpt":${excerpt}}`;
}

const decimal = /^-?\d{1,29}(\.\d{1,9})?$/;
/** No column can store NUL and unpaired surrogates; they can only arrive as escapes. */
const suspicious = /\\u(?:0000|[dD][89a-fA-F])/;

/** Parses the line of an event. Returns a reason for an invalid one, and never throws. */
export function decodeEvent(line: string): EventRecord | EventFault {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return 'not_json';
  }
  if (!isObject(value)) return 'not_an_object';
  const refused = refusalReasons.find((reason) => reason === value['refused']);
  if (refused !== undefined) return refused;
  if (!isObject(value['sent'])) return 'not_an_object';
  if (suspicious.test(line) && !isStorable(value)) return 'bad_text';
  return eventOf(value, value['sent'], hasLongNumber(line) ? propertiesIn(line, ['sent']) : null) ?? 'bad_field';
}

/** Deeper than anything that the edge accepts. */
const depthMax = 64;

/** Whether a column can store every text in a value. */
export function isStorable(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return !value.includes('\0') && value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  if (depth > depthMax) return false;
  return Object.entries(value).every(([key, entry]) => isStorable(key) && isStorable(entry, depth + 1));
}

class Texts {
  isFaulty = false;
  readonly #sent: Record<string, unknown>;
  readonly #known: Record<string, unknown>;

  constructor(sent: Record<string, unknown>, known: Record<string, unknown>) {
    this.#sent = sent;
    this.#known = known;
  }

  /** What the app sent in the event, else in the request for all of its events, else empty. */
  own(name: EventText): string {
    return this.#take(this.#sent[name] ?? this.#known[name], eventTextMax[name]);
  }

  edge(name: string, max: number): string {
    return this.#take(this.#known[name], max);
  }

  #take(value: unknown, max: number): string {
    if (value === undefined || value === null) return '';
    if (typeof value === 'string' && fits(value, max)) return value;
    this.isFaulty = true;
    return '';
  }
}

export const aliasesMax = 4;
const noAliases: readonly string[] = [];

function aliasesOf(value: unknown): readonly string[] {
  if (!Array.isArray(value)) return noAliases;
  const texts = value.filter((one) => typeof one === 'string' && one !== '' && fits(one, eventTextMax.device_id));
  return texts.slice(0, aliasesMax);
}

/**
 * An event from its line and what the app sent; null if a field is invalid. @param cutOut its properties as sent, if
 * reserializing them would change a number.
 */
export function eventOf(
  known: Record<string, unknown>,
  sent: Record<string, unknown>,
  cutOut: string | null,
): EventRecord | null {
  const texts = new Texts(sent, known);
  const { time, received_at } = known;
  const privacy_mode = privacyModes.find((mode) => mode === known['privacy_mode']);
  const said = sent['platform'] ?? known['platform'];
  const platform = sdkPlatforms.find((one) => one === said) ?? '';
  const properties = sent['properties'];
  if (!isRecordTime(time) || !isRecordTime(received_at) || privacy_mode === undefined) return null;
  const event: EventRecord = {
    event_id: texts.edge('event_id', eventTextMax.event_id),
    organization_id: texts.edge('organization_id', 30),
    app_id: texts.edge('app_id', 30),
    name: texts.own('name'),
    time,
    received_at,
    privacy_mode,
    ip: texts.edge('ip', 45),
    device_ip: texts.edge('device_ip', 45),
    platform,
    install_id: texts.own('install_id'),
    device_id: texts.own('device_id'),
    aliases: aliasesOf(known['aliases']),
    user_id: texts.own('user_id'),
    session_id: texts.own('session_id'),
    link_id: texts.own('link_id'),
    click_id: texts.own('click_id'),
    campaign: texts.edge('campaign', 255),
    utm_source: texts.edge('utm_source', 255),
    utm_medium: texts.edge('utm_medium', 255),
    utm_campaign: texts.edge('utm_campaign', 255),
    utm_term: texts.edge('utm_term', 255),
    utm_content: texts.edge('utm_content', 255),
    revenue_amount: texts.edge('revenue_amount', 40),
    revenue_currency: texts.edge('revenue_currency', 3),
    is_conversion: known['is_conversion'] === true,
    is_id_made: known['is_id_made'] === true,
    properties: isObject(properties) ? (cutOut ?? JSON.stringify(properties)) : '',
  };
  if (texts.isFaulty || event.event_id === '' || event.name === '') return null;
  if (!isId('app', event.app_id) || !isId('org', event.organization_id)) return null;
  if (event.revenue_amount !== '' && !decimal.test(event.revenue_amount)) return null;
  return event;
}
