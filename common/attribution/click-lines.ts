/**
 * Clicks as lines of text, as short as they can be: by id for everything that attribution asks of a click, at an address for what matching
 * compares. A line begins with what sorts and names its click, and ends with a newline; fields are separated by tabs.
 *
 *   by id        the 16 characters of the id behind its time, app, link, `b` for a bot, milliseconds from the id's time to the click's,
 *                query, campaign, utm fields
 *   at address   the 26 characters of the id, the 26 of the link's, milliseconds as above and a colon, traces (see click-traces.ts)
 */
import { CAMPAIGN_FIELDS, type CampaignTexts } from '#common/campaign-fields.ts';
import { timeOfId } from '#common/ids.ts';
import {
  type BrowserTexts,
  type ClickTraces,
  escaped,
  readTraces,
  tracesText,
  unescaped,
} from '#common/match/click-traces.ts';

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

/** A click at an address, in the form that matching compares. */
export interface TracedClick {
  readonly click_id: string;
  readonly link_id: string;
  readonly time: number;
  readonly query: string;
  readonly traces: ClickTraces;
}

const texts = ['query', ...CAMPAIGN_FIELDS] as const;
/** Prefix and underscore of an id, the characters of its time, and everything after the underscore. */
const [prefixChars, timeChars, bareChars] = [4, 10, 26];

/** The part of a click's id that is its time, which clicks of one millisecond share. */
export function timePartOf(clickId: string): string {
  return clickId.slice(prefixChars, prefixChars + timeChars);
}

/** The beginning of a click's line by id. */
export function idStart(clickId: string): string {
  return clickId.slice(prefixChars + timeChars);
}

/** The beginning of a click's line at an address. */
export function addressStart(clickId: string): string {
  return clickId.slice(prefixChars);
}

let [knownTimePart, knownTimeMs] = ['', 0];

/** From the time of the id to the click's. Clicks that come together share few milliseconds. */
function delayText(clickId: string, time: number): string {
  if (knownTimePart === '' || !clickId.startsWith(knownTimePart, prefixChars)) {
    knownTimeMs = timeOfId(clickId);
    knownTimePart = timePartOf(clickId);
  }
  const delay = time - knownTimeMs;
  return delay === 0 ? '' : String(delay);
}

export function lineById(click: Omit<RecentClick, 'is_bot'>, is_bot: boolean): string {
  const { click_id, app_id, link_id, time } = click;
  let line = `${idStart(click_id)}${app_id.slice(prefixChars)}\t${link_id.slice(prefixChars)}\t${is_bot ? 'b' : ''}\t${delayText(click_id, time)}`;
  for (const name of texts) line += `\t${escaped(click[name])}`;
  return `${line.endsWith('\t') ? line.replace(/\t+$/, '') : line}\n`;
}

/** The click with this id among lines by id; null if there is none. */
export function clickInLines(lines: string, clickId: string): RecentClick | null {
  const start = idStart(clickId);
  const at = lines.startsWith(start) ? 0 : lines.indexOf(`\n${start}`) + 1;
  if (at === 0 && !lines.startsWith(start)) return null;
  const line = lines.slice(at + start.length, lines.indexOf('\n', at));
  const [app = '', link = '', bot = '', delay = '', ...rest] = line.split('\t');
  const text = (n: number) => unescaped(rest[n] ?? '');
  return {
    click_id: clickId,
    app_id: `app_${app}`,
    link_id: `lnk_${link}`,
    time: timeOfId(clickId) + Number(delay),
    query: text(0),
    campaign: text(1),
    utm_source: text(2),
    utm_medium: text(3),
    utm_campaign: text(4),
    utm_term: text(5),
    utm_content: text(6),
    is_bot: bot === 'b',
  };
}

/** The ids of an app's clicks among lines by id. */
export function clicksOfApp(lines: string, timePart: string, appId: string): string[] {
  const app = appId.slice(prefixChars);
  return lines.split('\n').flatMap((line) => {
    const restChars = bareChars - timeChars;
    return line.startsWith(`${app}\t`, restChars) ? [`clk_${timePart}${line.slice(0, restChars)}`] : [];
  });
}

export function lineAtAddress(
  { click_id, link_id, time, query }: Omit<RecentClick, 'is_bot'>,
  browser: BrowserTexts,
): string {
  return `${addressStart(click_id)}${link_id.slice(prefixChars)}${delayText(click_id, time)}:${tracesText(browser, query)}\n`;
}

/** Clicks at an address, the newest first, each once. */
export function clicksAtAddress(lines: string, max: number): TracedClick[] {
  const distinct = new Set(lines.split('\n'));
  distinct.delete('');
  // They begin with their time.
  return [...distinct].sort().slice(-max).reverse().map(tracedClick);
}

function tracedClick(line: string): TracedClick {
  const click_id = `clk_${line.slice(0, bareChars)}`;
  const colon = line.indexOf(':', 2 * bareChars);
  const { traces, own } = readTraces(line.slice(colon + 1));
  return {
    click_id,
    link_id: `lnk_${line.slice(bareChars, 2 * bareChars)}`,
    time: timeOfId(click_id) + Number(line.slice(2 * bareChars, colon)),
    query: own,
    traces,
  };
}
