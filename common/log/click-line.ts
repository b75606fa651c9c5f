/**
 * The line of a click in the log: the order of its fields. This is the only definition; the redirector writes lines
 * piece by piece with it, and ingest parses them with it.
 *
 *   {"v":1,"click_id":"…","time":…,<the link's fields>,"trigger":"…",<the visitor's fields>,"rule":"…",<flags>}
 *
 * The link's fields are adjacent, so that both sides build them once per link. Empty texts and false flags are left
 * out. A JSON reader accepts the fields in any order.
 */
import { CAMPAIGN_FIELDS, type CampaignField } from '#common/campaign-fields.ts';
import { type Click, type ClickText, type ClickTrigger, clickTextMax, cut, jsonCharacters } from './record.ts';

/** Before the click's id. */
export const clickHead = '{"v":1,"click_id":"';
/** Between the id and the time. */
export const timeName = '","time":';

/** The ids at the beginning of a link's fields, each with the text before it. */
export const linkIdNames = [
  ['organization_id', ',"organization_id":"'],
  ['app_id', '","app_id":"'],
  ['link_id', '","link_id":"'],
] as const;
const modeName = '","privacy_mode":"';

/** The fields of a visitor's request, in their order. */
export const visitorTexts = ['user_agent', 'ip', 'language', 'referrer', 'query'] as const;
const flags = ['is_prefetch', 'is_preview'] as const;

export type ClickLinkFields = Pick<Click, (typeof linkIdNames)[number][0] | 'privacy_mode' | CampaignField>;

/** The text before a value. */
export function textName(name: ClickText): string {
  return `,"${name}":"`;
}

/** A text escaped for JSON, without its quotes, cut to its maximum length. */
export function clickText(name: ClickText, value: string): string {
  const max = clickTextMax[name];
  return jsonCharacters(value.length > max ? cut(value, max) : value);
}

/** A text with its name; nothing if it is empty. */
export function clickField(name: ClickText, value: string): string {
  return value === '' ? '' : `${textName(name)}${clickText(name, value)}"`;
}

/** The fields that all clicks of a link have in common. Ids and enumerations are ours and need no escaping. */
export function linkFieldsJson(fields: ClickLinkFields): string {
  let json = '';
  for (const [name, before] of linkIdNames) json += before + fields[name];
  json += `${modeName}${fields.privacy_mode}"`;
  for (const name of CAMPAIGN_FIELDS) json += clickField(name, fields[name]);
  return json;
}

/** Between the fields of the link and those of the visitor. */
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
  return json + clickField('rule', click.rule) + flagsJson(click);
}
