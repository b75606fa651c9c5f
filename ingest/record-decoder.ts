/**
 * Reads one line of the log. What the edge wrote always passes; anything else becomes a rejection with a reason, however it
 * is broken, and never an exception: one bad record must not hold up the ones behind it.
 */
import { isId } from '#common/ids.ts';
import {
  type Click,
  type ClickText,
  clickTextMax,
  clickTriggers,
  privacyModes,
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
] as const;
export type RejectionReason = (typeof rejectionReasons)[number];

export interface Rejection {
  readonly reason: RejectionReason;
}

/** Records of before Signpost and of after this century are mistakes, and each month of theirs would be a partition. */
const timeMin = Date.UTC(2020, 0, 1);
const timeMax = Date.UTC(2100, 0, 1);

const loneSurrogate = /\p{Surrogate}/u;

export function isRejection(value: object): value is Rejection {
  return 'reason' in value;
}

function rejection(reason: RejectionReason): Rejection {
  return { reason };
}

/** The object in a line, or why there is none. */
export function decodeObject(line: string): Record<string, unknown> | Rejection {
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

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** NUL and half surrogate pairs can only come in as escapes, so most lines need no look at their texts. */
export function mayHoldBadText(line: string): boolean {
  return line.includes('\\u');
}

export function isBadText(text: string): boolean {
  return text.includes('\0') || loneSurrogate.test(text);
}

export function isTime(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= timeMin && value < timeMax;
}

export function decodeClick(line: string): Click | Rejection {
  const object = decodeObject(line);
  if (isRejection(object)) return object;
  const { click_id, organization_id, app_id, link_id, time } = object;
  if (typeof click_id !== 'string' || !isId('clk', click_id)) return rejection('bad_id');
  if (typeof organization_id !== 'string' || !isId('org', organization_id)) return rejection('bad_id');
  if (typeof app_id !== 'string' || !isId('app', app_id)) return rejection('bad_id');
  if (typeof link_id !== 'string' || !isId('lnk', link_id)) return rejection('bad_id');
  if (!isTime(time)) return rejection('bad_time');
  const privacy_mode = privacyModes.find((mode) => mode === object.privacy_mode);
  const trigger = clickTriggers.find((one) => one === object.trigger);
  if (privacy_mode === undefined || trigger === undefined) return rejection('bad_field');
  const isSuspect = mayHoldBadText(line);
  let fault: RejectionReason | undefined;
  const text = (name: ClickText): string => {
    const value = object[name];
    if (value === undefined) return '';
    if (typeof value !== 'string' || value.length > clickTextMax[name]) fault = 'bad_field';
    else if (isSuspect && isBadText(value)) fault = 'bad_text';
    else return value;
    return '';
  };
  const click: Click = {
    click_id,
    organization_id,
    app_id,
    link_id,
    time,
    privacy_mode,
    trigger,
    ip: text('ip'),
    user_agent: text('user_agent'),
    language: text('language'),
    referrer: text('referrer'),
    query: text('query'),
    campaign: text('campaign'),
    utm_source: text('utm_source'),
    utm_medium: text('utm_medium'),
    utm_campaign: text('utm_campaign'),
    utm_term: text('utm_term'),
    utm_content: text('utm_content'),
    is_prefetch: object.is_prefetch === true,
    is_preview: object.is_preview === true,
  };
  return fault === undefined ? click : rejection(fault);
}
