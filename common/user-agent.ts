/**
 * What a user agent reveals about a device, limited to facts that the device itself would report. Browsers reveal less
 * than they seem to: frozen, reduced or invented values count as unknown, because a wrong value costs a correct match.
 * The strings on which this is based are in testing/user-agents.tsv, each with its date and the truth.
 *
 *   Safari from iOS 26 on        `OS 18_6` or `18_7` for ever; `Version/` is the system's     webkit.org/blog/17333, 2025-09
 *   web views from iOS 26 on     the same, without `Version/`; some apps put the real         device-detector #8330, 2026-07
 *                                build (`Mobile/23D127`) or system back
 *   Firefox for iOS              follows the freeze on whatever system it runs                firefox-ios #29263, 2025-09
 *   Chrome, Edge on iPads        `Macintosh`, and `Version/11.1.1` for ever                   uap-core #564, 2023-11
 *   Safari on iPads              identical to a Mac's; `10_15_7` for ever                     iPadOS 13, 2019
 *   Chrome on Android            `Android 10; K` for ever                                     chromium.org, "User-Agent Reduction", 2023
 *   Android's web view           the same with `wv`, in new versions of Android               android-developers blog, 2024-12
 */
import { LRUCache } from 'lru-cache';
import { type DeviceFamily, familyOf, isDisguisedIpad } from './device-family.ts';
import { inAppBrowser } from './in-app-browser.ts';

export interface UserAgentFacts {
  readonly family: DeviceFamily;
  /** Safari on an iPad calls itself a Macintosh, so a Macintosh with Safari may be one. */
  readonly maybeIpad: boolean;
  /** Numbers from the left; empty if unknown. */
  readonly os_version: readonly number[];
  /** If the version is frozen and therefore unknown: it is at least this one. Otherwise empty. */
  readonly os_version_min: readonly number[];
  /** As written; `iPhone` or `iPad` if nothing more is known; empty if unknown. */
  readonly device_model: string;
  /** Added by some in-app browsers; empty otherwise. */
  readonly language: string;
  /** CSS pixels, added by some in-app browsers. */
  readonly screen: readonly [number, number] | null;
  /** The app whose in-app browser it is, if the user agent names it. */
  readonly app: string | null;
}

const unknown: UserAgentFacts = {
  family: 'other',
  maybeIpad: false,
  os_version: [],
  os_version_min: [],
  device_model: '',
  language: '',
  screen: null,
  app: null,
};

const cache = new LRUCache<string, UserAgentFacts>({ max: 20_000 });

/** Cached: the same few thousand user agents recur. */
export function readUserAgent(text: string): UserAgentFacts {
  if (text === '') return unknown;
  let facts = cache.get(text);
  if (!facts) {
    facts = parse(text);
    cache.set(text, facts);
  }
  return facts;
}

function parse(text: string): UserAgentFacts {
  const family = familyOf(text);
  if (family === 'ios') return appleFacts(text);
  if (family === 'android') return androidFacts(text);
  if (text.includes('Macintosh') && /AppleWebKit\/6/.test(text) && !/Chrome\/|Firefox\//.test(text)) {
    return { ...unknown, maybeIpad: true, os_version: text.includes('10_15_7') ? safariVersion(text) : [] };
  }
  return unknown;
}

/** `17.5.1` and `17_5_1` as numbers. */
export function versionOf(text: string | undefined): number[] {
  if (text === undefined) return [];
  const match = /\d+(?:[._]\d+)*/.exec(text);
  return match ? match[0].split(/[._]/).slice(0, 3).map(Number) : [];
}

function appleFacts(text: string): UserAgentFacts {
  const family = /iPad/.test(text) || isDisguisedIpad(text) ? 'iPad' : (/iPhone|iPod/.exec(text)?.[0] ?? '');
  const hardware = /\b(?:iPhone|iPad|iPod)\d{1,2},\d{1,2}\b/.exec(text)?.[0];
  // Instagram: "(iPhone14,5; iOS 17_4_1; en_US; en; scale=3.00; 1170x2532", with additional fields in some versions.
  const [, scale, width, height] = /; scale=([\d.]+);(?: [\w=]+;)?? (\d{3,4})x(\d{3,4})\b/.exec(text) ?? [];
  return {
    family: 'ios',
    maybeIpad: false,
    ...appleVersion(text),
    device_model: hardware ?? family,
    language: /; (?:iOS|iPadOS|iPhone OS) [\d_]+; ([A-Za-z]{2,3}(?:_\w+)?)/.exec(text)?.[1] ?? appLanguage(text),
    screen: Number(scale) > 0 ? [Number(width) / Number(scale), Number(height) / Number(scale)] : null,
    app: inAppBrowser(text),
  };
}

/**
 * Apps that were built with tools from before iOS 26 are told that it is 19: `OS 19_0`, also in their web views. No system was ever
 * called 19 to 25.
 */
export function iosVersion([major = 0, ...rest]: readonly number[]): readonly number[] {
  return major === 0 ? [] : [major >= 19 && major < FROZEN_SINCE ? major + 7 : major, ...rest];
}

/** The same of a version as text. */
export function iosVersionText(text: string): string {
  return text.replace(/^(?:19|2[0-5])(?=\.|$)/, (major) => String(Number(major) + 7));
}

type Versions = Pick<UserAgentFacts, 'os_version' | 'os_version_min'>;
const known = (os_version: readonly number[]): Versions => ({ os_version: iosVersion(os_version), os_version_min: [] });

/** The first version of iOS whose user agents name 18 instead. */
const FROZEN_SINCE = 26;

/** Other vendors' browsers on iOS whose `Version/` is constant or absent. */
const otherBrowser = /\b(?:CriOS|FxiOS|EdgiOS|OPT|OPiOS)\//;
const firefox = /\bFxiOS\//;

function safariVersion(text: string): number[] {
  return otherBrowser.test(text) ? [] : versionOf(/\bVersion\/(\d+(?:\.\d+)*)/.exec(text)?.[1]);
}

function appleVersion(text: string): Versions {
  const said = versionOf(appSystemVersion(text));
  if (said.length > 0) return known(said);
  const safari = safariVersion(text);
  const system = versionOf(/OS (\d+(?:_\d+)*) like Mac/.exec(text)?.[1]);
  const [major = 0, minor] = system;
  if ((safari[0] ?? 0) >= FROZEN_SINCE) return known(safari);
  if (firefox.test(text) && major >= 18) return known([]);
  const isFrozen = major === 18 && (minor === 6 || minor === 7) && system.length === 2 && safari.length === 0;
  if (!isFrozen) return known(system);
  const build = buildMajor(text);
  if (build === 0) return { os_version: [], os_version_min: system };
  return known(build === major ? system : [build]);
}

/** The OS version as in-app browsers write it: `FBSV/17.4`, `(iPad13,4; iPadOS 17_0_1;`. Empty if absent. */
function appSystemVersion(text: string): string {
  const [, facebook, instagram] =
    /FBSV\/(\d[\d.]*)|\((?:iPhone|iPad|iPod)\d+,\d+; (?:iOS|iPadOS|iPhone OS) (\d[\d_]*)/.exec(text) ?? [];
  return facebook ?? instagram ?? '';
}

/**
 * `Mobile/21F90` is a build of iOS 17, 22 of 18, 23 of 26. `15E148` is in every Safari, whatever its system. 0:
 * unknown.
 */
function buildMajor(text: string): number {
  const [, build, series] = /\bMobile\/((\d{2})[A-Z]\d+)/.exec(text) ?? [];
  if (build === undefined || build === '15E148') return 0;
  return Number(series) <= 22 ? Number(series) - 4 : Number(series) + 3;
}

/** Facebook `FBLC/de_DE`, TikTok `ByteFullLocale/de-DE`, WeChat `Language/zh_CN`. */
function appLanguage(text: string): string {
  return /\b(?:FBLC|ByteFullLocale|Language)\/([A-Za-z]{2,3}(?:[-_]\w+)?)/.exec(text)?.[1] ?? '';
}

function androidFacts(text: string): UserAgentFacts {
  const [, system, locale = '', name] =
    /Android (\d+(?:\.\d+)*)(?:; ([a-z]{2}[-_][A-Za-z]{2}))?(?:; ([^;)]+?))?(?: Build\/[^;)]*)?(?:; wv)?[;)]/.exec(
      text,
    ) ?? [];
  const model = modelOf(name);
  // Firefox and others that name no model write 10 when they hide the version.
  const isReduced = name?.trim() === 'K' || (model === '' && system === '10');
  const browser: UserAgentFacts = {
    ...unknown,
    family: 'android',
    os_version: isReduced ? [] : versionOf(system),
    device_model: model,
    language: appLanguage(text) || locale,
    app: inAppBrowser(text),
  };
  return { ...browser, ...instagramOnAndroid(text), ...telegram(text), ...facebookOnAndroid(text) };
}

/** "Instagram 309.1 Android (33/13; 420dpi; 1080x2131; samsung; SM-G991B; o1s; exynos2100; en_US" */
function instagramOnAndroid(text: string): Partial<UserAgentFacts> {
  const [, system, dpi, width, height, model, language] =
    /Android \(\d+\/([\d.]+); (\d+)dpi; (\d+)x(\d+); [^;]+; ([^;]+); [^;]+; [^;]+; (\w+)/.exec(text) ?? [];
  if (system === undefined || language === undefined) return {};
  const scale = Number(dpi) / 160;
  return {
    os_version: versionOf(system),
    device_model: modelOf(model),
    language,
    screen: [Number(width) / scale, Number(height) / scale],
  };
}

/** "Telegram-Android/12.2.10 (Samsung SM-G770F; Android 13; SDK 33; HIGH)" */
function telegram(text: string): Partial<UserAgentFacts> {
  const [, model, system] = /\bTelegram-Android\/[\d.]+ \(\S+ ([^;)]+); Android ([\d.]+);/.exec(text) ?? [];
  return model === undefined ? {} : { os_version: versionOf(system), device_model: modelOf(model) };
}

/** "[FBAN/FB4A;FBAV/455.0;FBDV/SM-A515F;FBSV/13;FBLC/de_DE" */
function facebookOnAndroid(text: string): Partial<UserAgentFacts> {
  const [, model] = /\bFBDV\/([^;\]]+)/.exec(text) ?? [];
  const [, system] = /\bFBSV\/(\d[\d.]*)/.exec(text) ?? [];
  return { ...(model ? { device_model: modelOf(model) } : {}), ...(system ? { os_version: versionOf(system) } : {}) };
}

function modelOf(text: string | undefined): string {
  const model = (text ?? '')
    .replace(/ Build\/.*$/, '')
    .replace(/^SAMSUNG (?=SM-)/i, '')
    .trim();
  return /^(k|mobile|tablet|wv|u|[a-z]{2}([-_][a-z]{2})?|rv:.*)$/i.test(model) ? '' : model.slice(0, 64);
}
