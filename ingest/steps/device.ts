/**
 * What a user agent says of its device. Parsing costs more than a redirect, and people use few distinct agents, so the
 * answers are kept: about 0.3 µs for one that is known.
 */
import Bowser from 'bowser';
import { isbot } from 'isbot';
import { LRUCache } from 'lru-cache';
import type { Step } from '#ingest/pipeline.ts';

export const platforms = ['ios', 'android', 'desktop', 'other'] as const;
export type Platform = (typeof platforms)[number];

export interface Device {
  readonly platform: Platform;
  readonly os: string;
  readonly os_version: string;
  readonly browser: string;
  readonly device_model: string;
  /** The agent names itself a crawler, a library or a tool. */
  readonly isBot: boolean;
}

const desktopSystems = new Set(['Windows', 'macOS', 'Linux', 'Chrome OS', 'FreeBSD', 'OpenBSD', 'NetBSD']);
/** Chrome on Android says K for every model since it reduces its user agent. */
const reducedModel = 'K';
const androidModel = /\bAndroid [^;)]+; (?:[a-z]{2}[-_][a-zA-Z]{2}; )?([^;)]{1,64}?)(?: Build\/[^;)]*)?[;)]/;
const columnCharsMax = 64;

export function deviceOf(userAgent: string): Device {
  const { browser, os, platform } = Bowser.parse(userAgent === '' ? ' ' : userAgent);
  const system = os.name ?? '';
  return {
    platform: platformOf(system),
    os: system.slice(0, columnCharsMax),
    os_version: (system === 'Windows' ? (os.versionName ?? '') : (os.version ?? '')).slice(0, columnCharsMax),
    browser: (browser.name ?? '').slice(0, columnCharsMax),
    device_model: system === 'Android' ? androidModelOf(userAgent) : (platform.model ?? '').slice(0, columnCharsMax),
    isBot: isbot(userAgent),
  };
}

/** An iPad that asks for desktop pages calls itself a Mac, and is counted as one. */
function platformOf(system: string): Platform {
  if (system === 'iOS') return 'ios';
  if (system === 'Android') return 'android';
  return desktopSystems.has(system) ? 'desktop' : 'other';
}

function androidModelOf(userAgent: string): string {
  const model = androidModel.exec(userAgent)?.[1]?.trim() ?? '';
  return model === reducedModel ? '' : model;
}

/** Columns platform, os, os_version, browser and device_model, and whether it is a bot and why. */
export function deviceStep(agentsMax: number): Step {
  const known = new LRUCache<string, Device>({ max: agentsMax });
  return (clicks) => {
    for (const { click, row } of clicks) {
      let device = known.get(click.user_agent);
      if (device === undefined) {
        device = deviceOf(click.user_agent);
        known.set(click.user_agent, device);
      }
      row.platform = device.platform;
      row.os = device.os;
      row.os_version = device.os_version;
      row.browser = device.browser;
      row.device_model = device.device_model;
      row.bot_reason = botReason(click, device);
      row.is_bot = row.bot_reason !== '';
    }
  };
}

/** Why a click is no person's: a closed set; empty for a person. */
function botReason(click: { user_agent: string; is_prefetch: boolean; is_preview: boolean }, device: Device): string {
  if (click.is_preview) return 'preview';
  if (click.is_prefetch) return 'prefetch';
  if (click.user_agent.trim() === '') return 'no_user_agent';
  return device.isBot ? 'user_agent' : '';
}
