/**
 * What a user agent gives away about a device, as far as an SDK on that device would say the same. Browsers say less than
 * they seem to: what is frozen or made up is taken as unknown, because a wrong "known" costs a right match.
 */
import { LRUCache } from 'lru-cache';
import { appSystemVersion, type DeviceFamily, familyOf, isDisguisedIpad } from '#common/device-family.ts';

export interface UserAgentFacts {
  readonly family: DeviceFamily;
  /** Safari on an iPad calls itself a Macintosh, so a Macintosh with Safari may be one. */
  readonly maybeIpad: boolean;
  /** Numbers from the left; empty when unknown. */
  readonly os_version: readonly number[];
  /** In lower case; `iphone` or `ipad` where no more is known; empty when unknown. */
  readonly device_model: string;
  /** As some in-app browsers add it; empty otherwise. */
  readonly language: string;
  /** CSS pixels, as some in-app browsers add it. */
  readonly screen: readonly [number, number] | null;
}

const unknown: UserAgentFacts = {
  family: 'other',
  maybeIpad: false,
  os_version: [],
  device_model: '',
  language: '',
  screen: null,
};

const cache = new LRUCache<string, UserAgentFacts>({ max: 20_000 });

/** Cached: the same few thousand texts come again and again. */
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
  if (family === 'ios') return iosFacts(text);
  if (family === 'android') return androidFacts(text);
  if (/Macintosh/.test(text) && /Version\/[\d.]+.* Safari\//.test(text) && !/Chrome\/|Firefox\//.test(text)) {
    return { ...unknown, maybeIpad: true, os_version: versionOf(/Version\/(\d+(?:\.\d+)*)/.exec(text)?.[1]) };
  }
  return unknown;
}

/** `17.5.1` and `17_5_1` as numbers. */
export function versionOf(text: string | undefined): number[] {
  if (text === undefined) return [];
  const match = /\d+(?:[._]\d+)*/.exec(text);
  return match ? match[0].split(/[._]/).slice(0, 3).map(Number) : [];
}

function iosFacts(text: string): UserAgentFacts {
  // Facebook: FBDV is the hardware, FBSV the system. Instagram: "(iPhone14,5; iOS 17_4_1; en_US; en; scale=3.00; 1170x2532".
  const instagram =
    /\((iPhone|iPad|iPod)(\d+,\d+); (?:iOS|iPadOS) ([\d_]+); (\w+); [\w-]+; scale=([\d.]+); (\d+)x(\d+)/.exec(text);
  const hardware =
    /FBDV\/((?:iPhone|iPad|iPod)\d+,\d+)/.exec(text)?.[1] ?? (instagram && `${instagram[1]}${instagram[2]}`);
  const family = /iPad/.test(text) || isDisguisedIpad(text) ? 'ipad' : /iPhone|iPod/.test(text) ? 'iphone' : '';
  const system = versionOf(appSystemVersion(text) || /OS (\d+(?:_\d+)*) like Mac/.exec(text)?.[1]);
  // From 26 on Safari's system stays at 18_6 (webkit.org, "News from WWDC25"); its own version is the system's.
  const safari = versionOf(/Version\/(\d+(?:\.\d+)*)/.exec(text)?.[1]);
  const os_version = (safari[0] ?? 0) > (system[0] ?? 0) ? safari : system;
  const scale = Number(instagram?.[5] ?? 0);
  const screen =
    instagram && scale > 0 ? ([Number(instagram[6]) / scale, Number(instagram[7]) / scale] as const) : null;
  return {
    family: 'ios',
    maybeIpad: false,
    os_version,
    device_model: (hardware ?? family).toLowerCase(),
    language: instagram?.[4] ?? '',
    screen,
  };
}

function androidFacts(text: string): UserAgentFacts {
  // Instagram: "Android (33/13; 420dpi; 1080x2131; samsung; SM-G991B; o1s; exynos2100; en_US"
  const instagram = /Android \(\d+\/([\d.]+); (\d+)dpi; (\d+)x(\d+); [^;]+; ([^;]+); [^;]+; [^;]+; (\w+)/.exec(text);
  if (instagram) {
    const scale = Number(instagram[2]) / 160;
    return {
      family: 'android',
      maybeIpad: false,
      os_version: versionOf(instagram[1]),
      device_model: modelOf(instagram[5]),
      language: instagram[6] ?? '',
      screen: [Number(instagram[3]) / scale, Number(instagram[4]) / scale],
    };
  }
  const [, version, model] = /Android (\d+(?:\.\d+)*)(?:; ([^;)]+?))?(?: Build\/[^;)]*)?(?:; wv)?[;)]/.exec(text) ?? [];
  // "Android 10; K" is what Chrome says on every device since 2023 (chromium.org, "User-Agent Reduction").
  if (model === 'K') return { ...unknown, family: 'android' };
  return { ...unknown, family: 'android', os_version: versionOf(version), device_model: modelOf(model) };
}

function modelOf(text: string | undefined): string {
  const model = (text ?? '')
    .replace(/ Build\/.*$/, '')
    .trim()
    .toLowerCase();
  return /^(mobile|tablet|wv|u|[a-z]{2}([-_][a-z]{2})?|rv:.*)$/.test(model) ? '' : model;
}
