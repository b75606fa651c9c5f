/**
 * Normalizes the signals of a click and of a device, so that a browser's and an SDK's description of the same phone are
 * equal.
 */
import { LRUCache } from 'lru-cache';
import type { DeviceFamily } from '#common/device-family.ts';
import { limitAddress } from '#common/http/peer.ts';
import type { TapSignals } from '#common/links/tap-page.ts';
import type { SdkPlatform } from '#common/log/event-record.ts';
import { iosVersion, readUserAgent, versionOf } from '#common/user-agent.ts';
import { type BrowserTexts, type ClickTraces, tracesOf } from './click-traces.ts';
import { LANGUAGES_MAX, languagesOf } from './languages.ts';

export interface Signals {
  readonly family: DeviceFamily;
  readonly maybeIpad: boolean;
  /** The address, for IPv6 the /64; empty if unknown. */
  readonly ip: string;
  readonly os_version: readonly number[];
  /** The minimum version if a frozen user agent hides it; otherwise empty. */
  readonly os_version_min: readonly number[];
  readonly device_model: string;
  /** Primary language and region of the preferred language; empty if unknown. */
  readonly language: readonly [string, string];
  /** Primary languages of the others. */
  readonly more_languages: readonly string[];
  readonly timezone: string;
  /** Possible sizes in CSS pixels, smaller side first; empty if unknown. */
  readonly screens: readonly (readonly [number, number])[];
}

/** What an SDK reports about its device. */
export interface DeviceFields {
  readonly platform: SdkPlatform;
  readonly os_version?: string | null;
  readonly device_model?: string | null;
  readonly language?: string | null;
  /**
   * The phone's preferred languages, most preferred first. The app's own language may be the only one that the app has.
   */
  readonly languages?: readonly string[] | null;
  readonly timezone?: string | null;
  readonly screen_width?: number | null;
  readonly screen_height?: number | null;
  readonly screen_scale?: number | null;
  readonly user_agent?: string | null;
}

export interface ClickFields extends BrowserTexts {
  readonly ip: string;
  /** What the tap page of the click sent, if there was one. */
  readonly tap?: TapSignals | null;
}

export function clickSignals(click: ClickFields): Signals {
  return signalsOfTraces(tracesOf(click), click.ip, click.tap ?? null);
}

/** @param tap what the tap page of the click sent, if there was one. */
export function signalsOfTraces(traces: ClickTraces, ip: string, tap: TapSignals | null): Signals {
  const { family, maybeIpad, os_version, os_version_min, device_model, screen } = traces;
  return {
    family,
    maybeIpad,
    ip: limitAddress(ip),
    os_version,
    os_version_min,
    device_model: device_model.toLowerCase(),
    ...languagesOf([...traces.languages, ...(tap?.languages ?? [])]),
    timezone: timezoneOf(tap?.timezone ?? ''),
    screens: [...(screen ? [sorted(screen[0], screen[1])] : []), ...tapScreens(tap)],
  };
}

export function deviceSignals(device: DeviceFields, ip: string): Signals {
  const agent = readUserAgent(device.user_agent ?? '');
  // Code in a web page gets its version from the user agent, with the same errors.
  const isFrozen = device.platform === 'web' && agent.os_version_min.length > 0;
  const model = (device.device_model ?? '').trim().toLowerCase();
  const family = device.platform === 'web' ? agent.family : device.platform;
  const said = isFrozen ? [] : versionOf(device.os_version ?? undefined);
  const version = family === 'ios' ? iosVersion(said) : said;
  return {
    family,
    // On the web an iPad is as hard to recognize as in a click.
    maybeIpad: device.platform === 'web' ? agent.maybeIpad : model.startsWith('ipad'),
    ip: limitAddress(ip),
    os_version: version.length > 0 ? version : agent.os_version,
    os_version_min: version.length > 0 ? [] : agent.os_version_min,
    device_model: model || agent.device_model.toLowerCase(),
    ...languagesOf([...(device.languages ?? []).slice(0, LANGUAGES_MAX), device.language ?? '', agent.language]),
    timezone: timezoneOf(device.timezone ?? ''),
    screens: screensOf(device),
  };
}

const timezones = new LRUCache<string, string>({ max: 1_000 });

/** One name for zones that have several (`Asia/Calcutta` and `Asia/Kolkata`); empty for an invalid one. */
function timezoneOf(text: string): string {
  if (text === '') return '';
  let name = timezones.get(text);
  if (name === undefined) {
    try {
      name = new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions().timeZone;
    } catch {
      name = '';
    }
    timezones.set(text, name);
  }
  return name;
}

/** The size as given, and as native pixels over the scale: SDKs send either. */
function screensOf({ screen_width, screen_height, screen_scale }: DeviceFields): (readonly [number, number])[] {
  if (!screen_width || !screen_height || screen_width <= 0 || screen_height <= 0) return [];
  const given = sorted(screen_width, screen_height);
  if (!screen_scale || screen_scale <= 1) return [given];
  return [given, sorted(screen_width / screen_scale, screen_height / screen_scale)];
}

/** In CSS pixels, and in native ones, which is what some SDKs send without their scale. */
function tapScreens(tap: TapSignals | null): (readonly [number, number])[] {
  if (tap === null) return [];
  const [width, height] = tap.screen;
  const ratio = tap.pixel_ratio;
  return ratio === 1 ? [sorted(width, height)] : [sorted(width, height), sorted(width * ratio, height * ratio)];
}

function sorted(a: number, b: number): readonly [number, number] {
  return a < b ? [a, b] : [b, a];
}
