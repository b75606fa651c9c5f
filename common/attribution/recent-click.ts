/** A recent click and its texts in Redis: by its id, and as a member of the clicks from one address. */
import { type CampaignTexts, campaignFrom } from '#common/campaign-fields.ts';
import { readTapSignals, type TapSignals } from '#common/links/tap-page.ts';
import { jsonText } from '#common/log/record.ts';
import type { Windows } from './attribution-windows.ts';

/** A click as attribution needs it. */
export interface RecentClick extends Readonly<CampaignTexts> {
  readonly click_id: string;
  readonly app_id: string;
  readonly link_id: string;
  /** Epoch milliseconds. */
  readonly time: number;
  readonly query: string;
  readonly is_bot: boolean;
}

/** What distinguishes one device at an address from another. Only for apps that match by it, and not for bots. */
export interface ClickTraces {
  readonly user_agent: string;
  /** The Accept-Language header. */
  readonly language: string;
}

/** A click as it is stored: the same object may be click and traces. */
export interface ClickToPut {
  readonly click: Omit<RecentClick, 'is_bot'>;
  readonly is_bot: boolean;
  readonly traces: ClickTraces | null;
  /** The name under which it is found (see address-writer.ts); empty for a click that is not matched by its address. */
  readonly address: string;
  readonly windows: Windows;
}

/** A click at an address, and who has already claimed it. */
export interface ClickAtAddress extends ClickTraces {
  readonly click_id: string;
  readonly link_id: string;
  readonly time: number;
  readonly claimed_by: string;
  /** The click as stored by its id; empty if it was not requested. */
  readonly json: string;
  /** What its tap page sent; null if there was none, and for a claimed click. */
  readonly signals: TapSignals | null;
}

/** The click's JSON without its id and without empty fields. Concatenated by hand for speed: every click passes here. */
export function clickJsonOf(click: ClickToPut['click'], is_bot: boolean): string {
  return (
    `{"app_id":${jsonText(click.app_id)},"link_id":${jsonText(click.link_id)},"time":${click.time}` +
    field('query', click.query) +
    field('campaign', click.campaign) +
    field('utm_source', click.utm_source) +
    field('utm_medium', click.utm_medium) +
    field('utm_campaign', click.utm_campaign) +
    field('utm_term', click.utm_term) +
    field('utm_content', click.utm_content) +
    (is_bot ? ',"is_bot":true}' : '}')
  );
}

function field(name: keyof ClickToPut['click'], text: string): string {
  return text === '' ? '' : `,"${name}":${jsonText(text)}`;
}

/** The entry at an address: the click's id, a space, and what distinguishes its device from others. */
export function memberOf(
  { click_id, link_id, time }: ClickToPut['click'],
  { user_agent, language }: ClickTraces,
): string {
  return (
    `${click_id} {"link_id":${jsonText(link_id)},"time":${time}` +
    `,"user_agent":${jsonText(user_agent)},"language":${jsonText(language)}}`
  );
}

export function clicksAtAddress(list: unknown): ClickAtAddress[] {
  const found: ClickAtAddress[] = [];
  if (!Array.isArray(list)) return found;
  for (let at = 0; at + 3 < list.length; at += 4) {
    const member = String(list[at]);
    const { link_id, time, user_agent, language } = JSON.parse(member.slice(31));
    const [claimed_by, json] = [String(list[at + 1]), String(list[at + 2])];
    const signals = signalsOf(String(list[at + 3]));
    found.push({ click_id: member.slice(0, 30), link_id, time, user_agent, language, claimed_by, json, signals });
  }
  return found;
}

function signalsOf(json: string): TapSignals | null {
  return json === '' ? null : readTapSignals(JSON.parse(json));
}

/** The query of a click that was returned as `json`. */
export function queryOf(json: string): string {
  const { query } = JSON.parse(json);
  return typeof query === 'string' ? query : '';
}

const noClick: Omit<RecentClick, 'click_id'> = {
  app_id: '',
  link_id: '',
  time: 0,
  query: '',
  ...campaignFrom(() => ''),
  is_bot: false,
};

export function clickIn(click_id: string, json: string): RecentClick {
  return { click_id, ...noClick, ...JSON.parse(json) };
}
