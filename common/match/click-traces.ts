/**
 * What a browser reveals about its device, as short text: the part of a click that matching compares, without the user
 * agent and header from which it was parsed. A property test proves that one line gives the same signals as those two
 * texts.
 */
import { LRUCache } from 'lru-cache';
import type { DeviceFamily } from '#common/device-family.ts';
import { inAppBrowser } from '#common/in-app-browser.ts';
import { readUserAgent } from '#common/user-agent.ts';
import { languagesOf } from './languages.ts';

export interface ClickTraces {
  readonly family: DeviceFamily;
  readonly maybeIpad: boolean;
  readonly os_version: readonly number[];
  readonly os_version_min: readonly number[];
  readonly device_model: string;
  /** BCP 47 in lower case, the preferred one first and with its region. */
  readonly languages: readonly string[];
  readonly screen: readonly [number, number] | null;
  /** The app whose in-app browser it is; empty for a browser. */
  readonly app: string;
}

/** What a browser sent when the link was opened. */
export interface BrowserTexts {
  readonly user_agent: string;
  /** The Accept-Language header. */
  readonly language: string;
}

const textsMax = 20_000;
const agents = new LRUCache<string, AgentText>({ max: textsMax });
const languageTexts = new LRUCache<string, string>({ max: 5_000 });

interface AgentText {
  /** Family, version and model. */
  readonly first: string;
  /** Screen and app. */
  readonly last: string;
  readonly language: string;
}

const letters = { ios: 'i', android: 'a', other: 'o' } as const;
const maybeIpad = 'm';
const families: Readonly<Record<string, DeviceFamily>> = { i: 'ios', a: 'android' };
/** Fields: version (`>` before a minimum), model, languages, the caller's own text, screen, app. */
const separator = '\t';

/** @param own a text that is stored with them, and returned by `readTraces`. */
export function tracesText({ user_agent, language }: BrowserTexts, own: string): string {
  const agent = agentText(user_agent);
  const text = `${agent.first}${separator}${languagesText(agent.language, language)}${separator}${escaped(own)}${agent.last}`;
  return text.replace(/\t+$/, '');
}

export function readTraces(text: string): { readonly traces: ClickTraces; readonly own: string } {
  const [first = '', model = '', languages = '', own = '', screen = '', app = ''] = text.split(separator);
  const letter = first.charAt(0);
  const version = first.slice(1);
  const isLeast = version.startsWith('>');
  const [width, height] = screen.split('x').map(Number);
  return {
    traces: {
      family: families[letter] ?? 'other',
      maybeIpad: letter === maybeIpad,
      os_version: isLeast ? [] : numbersOf(version),
      os_version_min: isLeast ? numbersOf(version.slice(1)) : [],
      device_model: unescaped(model),
      languages: languages === '' ? [] : languages.split(','),
      screen: width && height ? [width, height] : null,
      app,
    },
    own: unescaped(own),
  };
}

export function tracesOf(texts: BrowserTexts): ClickTraces {
  return readTraces(tracesText(texts, '')).traces;
}

function agentText(user_agent: string): AgentText {
  let known = agents.get(user_agent);
  if (known === undefined) {
    const facts = readUserAgent(user_agent);
    const letter = facts.maybeIpad ? maybeIpad : letters[facts.family];
    const least = facts.os_version_min.length > 0 ? `>${facts.os_version_min.join('.')}` : '';
    const screen = facts.screen === null ? '' : facts.screen.map(rounded).join('x');
    known = {
      first: `${letter}${least || facts.os_version.join('.')}${separator}${escaped(facts.device_model)}`,
      last: `${separator}${screen}${separator}${inAppBrowser(user_agent) ?? ''}`,
      language: facts.language,
    };
    agents.set(user_agent, known);
  }
  return known;
}

function languagesText(ofAgent: string, header: string): string {
  const key = `${ofAgent}\n${header}`;
  let known = languageTexts.get(key);
  if (known === undefined) {
    const { language, more_languages } = languagesOf([ofAgent, header]);
    const [primary, region] = language;
    known = primary === '' ? '' : [region === '' ? primary : `${primary}-${region}`, ...more_languages].join(',');
    languageTexts.set(key, known);
  }
  return known;
}

function numbersOf(version: string): number[] {
  return version === '' ? [] : version.split('.').map(Number);
}

/** No phone's screen has more digits; only whole pixels are compared. */
function rounded(pixels: number): number {
  return Math.round(pixels * 1e3) / 1e3;
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n' };
const escapedCharacters: Readonly<Record<string, string>> = { '\\': '\\', t: '\t', n: '\n' };

/** Removes tabs and newlines, which separate fields and lines. */
export function escaped(text: string): string {
  return /[\\\t\n]/.test(text) ? text.replace(/[\\\t\n]/g, (one) => escapes[one] ?? one) : text;
}

export function unescaped(text: string): string {
  return text.includes('\\') ? text.replace(/\\([\\tn])/g, (_, one: string) => escapedCharacters[one] ?? one) : text;
}
