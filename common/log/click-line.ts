/**
 * The line of a click in the log: which field comes after which. This is the only place that says so; the redirector writes lines piece by
 * piece with it, and ingest takes them apart with it.
 *
 *   {"v":1,"click_id":"…","time":…,<the link's fields>,"trigger":"…",<the visitor's fields>,<flags>}
 *
 * What belongs to the link comes in one piece, so that both sides make it once per link. Empty texts and false flags are left out.
 * A reader of JSON takes the fields in any order.
 */
import { CAMPAIGN_FIELDS, type CampaignField } from '#common/campaign-fields.ts';
import { type Click, type ClickText, type ClickTrigger, clickTextMax, cut, jsonCharacters } from './record.ts';

/** Before the click's id. */
export const clickHead = '{"v":1,"click_id":"';
/** Between the id and the time. */
export const timeName = '","time":';

/** The ids at the beginning of a link's fields, each with what stands before it. */
export const linkIdNames = [
  ['organization_id', ',"organization_id":"'],
  ['app_id', '","app_id":"'],
  ['link_id', '","link_id":"'],
] as const;
const modeName = '","privacy_mode":"';

/** What a visitor's request says, in the order in which it is written. */
export const visitorTexts = ['user_agent', 'ip', 'language', 'referrer', 'query'] as const;
const flags = ['is_prefetch', 'is_preview'] as const;

export type ClickLinkFields = Pick<Click, (typeof linkIdNames)[number][0] | 'privacy_mode' | CampaignField>;

/** What stands before the value of a text. */
export function textName(name: ClickText): string {
  return `,"${name}":"`;
}

/** A text as it stands between the quotes of JSON, cut to its longest. */
export function clickText(name: ClickText, value: string): string {
  const max = clickTextMax[name];
  return jsonCharacters(value.length > max ? cut(value, max) : value);
}

/** A text with its name; nothing when it is empty. */
export function clickField(name: ClickText, value: string): string {
  return value === '' ? '' : `${textName(name)}${clickText(name, value)}"`;
}

/** The fields that all clicks of a link have in common. Ids and enumerations are ours and need no escape. */
export function linkFieldsJson(fields: ClickLinkFields): string {
  let json = '';
  for (const [name, before] of linkIdNames) json += before + fields[name];
  json += `${modeName}${fields.privacy_mode}"`;
  for (const name of CAMPAIGN_FIELDS) json += clickField(name, fields[name]);
  return json;
}

/** What stands between the fields of the link and those of the visitor. */
export function triggerJson(trigger: ClickTrigger): string {
  return `,"trigger":"${trigger}"`;
}

/** The flags and the end of the line. */
export function flagsJson(click: Pick<Click, (typeof flags)[number]>): string {
  let json = '';
  for (const name of flags) if (click[name]) json += `,"${name}":true`;
  return `${json}}`;
}

/** The line of a click, without its newline: ASCII. */
export function clickJson(click: Click): string {
  let json = clickHead + click.click_id + timeName + click.time + linkFieldsJson(click) + triggerJson(click.trigger);
  for (const name of visitorTexts) json += clickField(name, click[name]);
  return json + flagsJson(click);
}
