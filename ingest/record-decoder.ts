/**
 * Decodes one line of the log. Everything that the edge wrote passes. Any other line gives a rejection with a reason,
 * never an exception: one invalid record must not block those behind it.
 */

import { isRecordTime } from '#common/event-time.ts';
import { isId } from '#common/ids.ts';
import { isObject } from '#common/json-object.ts';
import {
  type Click,
  type ClickText,
  type ClickTrigger,
  clickTextMax,
  type PrivacyMode,
  recordCharsMax,
} from '#common/log/record.ts';

export const rejectionReasons = [
  'too_long',
  'not_json',
  'not_an_object',
  'unknown_version',
  'bad_id',
  'bad_time',
  'bad_text',
  'bad_field',
  'bad_currency',
  'bad_amount',
  'bad_name',
  'bad_properties',
  'no_identity',
  /** The app says that it happened longer ago than events are kept. */
  'too_old',
  /** The record is valid, but ClickHouse refused its row. */
  'refused',
] as const;
export type RejectionReason = (typeof rejectionReasons)[number];

export interface RecordRejection {
  readonly reason: RejectionReason;
}

export { isRecordTime as isTime } from '#common/event-time.ts';

const loneSurrogate = /\p{Surrogate}/u;

export function isRejection(value: object): value is RecordRejection {
  return 'reason' in value;
}

function rejection(reason: RejectionReason): RecordRejection {
  return { reason };
}

/** The object in a line, or the reason why there is none. */
export function decodeObject(line: string): Record<string, unknown> | RecordRejection {
  if (line.length > recordCharsMax) return rejection('too_long');
  let parsed: unknown;
  try {
    parsed = JSON.parse(line);
  } catch {
    return rejection('not_json');
  }
  if (!isObject(parsed) || 'reason' in parsed) return rejection('not_an_object');
  return parsed.v === 1 ? parsed : rejection('unknown_version');
}

/** JSON can contain NUL and lone surrogates only as escapes, so the texts of most lines need no check. */
export function mayHoldBadText(line: string): boolean {
  return line.includes('\\u');
}

export function isBadText(text: string): boolean {
  return text.includes('\0') || loneSurrogate.test(text);
}

export function decodeClick(line: string): Click | RecordRejection {
  const object = decodeObject(line);
  return isRejection(object) ? object : clickIn(object, mayHoldBadText(line));
}

/** Matches between two objects, the only place where a newline can be replaced by the comma of an array. */
const betweenObjects = /\}\n\{/g;

/**
 * All clicks of a frame, parsed at once: half the cost of parsing line by line.
 * @returns `undefined` if anything differs from what the edge writes; then each line must be decoded separately.
 */
export function decodeClicks(text: string, records: number): Click[] | undefined {
  if (!text.endsWith('}\n') || hasLongLine(text)) return undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(`[${text.replace(betweenObjects, '},{')}]`);
  } catch {
    return undefined;
  }
  if (!Array.isArray(parsed) || parsed.length !== records) return undefined;
  const isSuspect = mayHoldBadText(text);
  const clicks: Click[] = [];
  for (const object of parsed) {
    if (!isObject(object) || object.v !== 1 || 'reason' in object) return undefined;
    const click = clickIn(object, isSuspect);
    if (isRejection(click)) return undefined;
    clicks.push(click);
  }
  return clicks;
}

function hasLongLine(text: string): boolean {
  if (text.length <= recordCharsMax) return false;
  let from = 0;
  for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
    if (end - from > recordCharsMax) return true;
    from = end + 1;
  }
  return false;
}

function isText(value: unknown, lengthMax: number): value is string {
  return typeof value === 'string' && value.length <= lengthMax;
}

function clickIn(object: Record<string, unknown>, isSuspect: boolean): Click | RecordRejection {
  const { click_id, organization_id, app_id, link_id, time } = object;
  if (typeof click_id !== 'string' || !isId('clk', click_id)) return rejection('bad_id');
  if (typeof organization_id !== 'string' || !isId('org', organization_id)) return rejection('bad_id');
  if (typeof app_id !== 'string' || !isId('app', app_id)) return rejection('bad_id');
  if (typeof link_id !== 'string' || !isId('lnk', link_id)) return rejection('bad_id');
  if (!isRecordTime(time)) return rejection('bad_time');
  const { privacy_mode, trigger } = object;
  if (!isPrivacyMode(privacy_mode) || !isTrigger(trigger)) return rejection('bad_field');
  const { ip = '', user_agent = '', language = '', referrer = '', query = '', campaign = '' } = object;
  const { rule = '' } = object;
  const { utm_source = '', utm_medium = '', utm_campaign = '', utm_term = '', utm_content = '' } = object;
  if (
    !isText(ip, clickTextMax.ip) ||
    !isText(user_agent, clickTextMax.user_agent) ||
    !isText(language, clickTextMax.language) ||
    !isText(referrer, clickTextMax.referrer) ||
    !isText(query, clickTextMax.query) ||
    !isText(rule, clickTextMax.rule) ||
    !isText(campaign, clickTextMax.campaign) ||
    !isText(utm_source, clickTextMax.utm_source) ||
    !isText(utm_medium, clickTextMax.utm_medium) ||
    !isText(utm_campaign, clickTextMax.utm_campaign) ||
    !isText(utm_term, clickTextMax.utm_term) ||
    !isText(utm_content, clickTextMax.utm_content)
  ) {
    return rejection('bad_field');
  }
  const click: Click = {
    click_id,
    organization_id,
    app_id,
    link_id,
    time,
    privacy_mode,
    trigger,
    rule,
    ip,
    user_agent,
    language,
    referrer,
    query,
    campaign,
    utm_source,
    utm_medium,
    utm_campaign,
    utm_term,
    utm_content,
    is_prefetch: object.is_prefetch === true,
    is_preview: object.is_preview === true,
  };
  if (!isSuspect) return click;
  return clickTexts.some((name) => isBadText(click[name])) ? rejection('bad_text') : click;
}

function isPrivacyMode(value: unknown): value is PrivacyMode {
  return value === 'anonymize_ip' || value === 'full_ip' || value === 'no_ip';
}

function isTrigger(value: unknown): value is ClickTrigger {
  return value === 'link' || value === 'universal_link';
}

const clickTexts = Object.keys(clickTextMax) as ClickText[];
