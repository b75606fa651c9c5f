/**
 * The one schema of what the edge writes to the log, one JSON object per record, one line per object. A click here is
 * as the edge saw it: nothing is parsed yet, the IP is complete, and privacy_mode says what ingest must do with it.
 * Empty fields are left out, so a reader treats an absent field as empty.
 */
import { type CampaignTexts, campaignFrom } from '#common/campaign-fields.ts';

export type RecordKind = 'click' | 'install' | 'event' | 'match';
/** The number of a kind in a frame. Append-only: what was once written to the log stays readable. */
export const recordKinds: readonly RecordKind[] = ['click', 'install', 'event', 'match'];

export const privacyModes = ['anonymize_ip', 'full_ip', 'no_ip'] as const;
export type PrivacyMode = (typeof privacyModes)[number];

export const clickTriggers = ['link', 'universal_link'] as const;
export type ClickTrigger = (typeof clickTriggers)[number];

/** Longest line of one record, in UTF-16 code units; a longer one is rejected before it is written. */
export const recordCharsMax = 80_000;

/** A click at the edge. Unknown values are empty. */
export interface Click extends CampaignTexts {
  click_id: string;
  organization_id: string;
  app_id: string;
  link_id: string;
  /** Epoch milliseconds. */
  time: number;
  ip: string;
  privacy_mode: PrivacyMode;
  user_agent: string;
  /** The Accept-Language header as received. */
  language: string;
  /** The Referer header as received. */
  referrer: string;
  /** The query string without its question mark. */
  query: string;
  trigger: ClickTrigger;
  /** The id of the link's rule that decided (common/links/rule-id.ts); empty if none did. */
  rule: string;
  /** The Sec-Purpose or Purpose header said prefetch. */
  is_prefetch: boolean;
  /** It was answered with the page for preview crawlers. */
  is_preview: boolean;
}

/** Longest free texts of a click in UTF-16 code units; the edge truncates longer ones. */
export const clickTextMax = {
  ip: 45,
  user_agent: 1024,
  language: 256,
  referrer: 2048,
  query: 2048,
  rule: 32,
  ...campaignFrom(() => 255),
} as const;

export type ClickText = keyof typeof clickTextMax;

const needsEscape = /["\\\u0000-\u001f\u007f-\uffff]/;

/** A JSON string in ASCII. */
export function jsonText(text: string): string {
  return `"${jsonCharacters(text)}"`;
}

/** The text between its quotes. The check costs a third of JSON.stringify, and hardly any header needs more. */
export function jsonCharacters(text: string): string {
  return needsEscape.test(text) ? escaped(text) : text;
}

function escaped(text: string): string {
  const json = JSON.stringify(text).slice(1, -1);
  return json.replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Whether a text has at most this many characters; a surrogate pair is one, as JSON Schema counts at the edge. */
export function fits(text: string, max: number): boolean {
  return text.length <= max || (text.length <= 2 * max && [...text].length <= max);
}

/** The first characters of a text, without half of a surrogate pair at its end. */
export function cut(text: string, max: number): string {
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max);
}
