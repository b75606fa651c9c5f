/** The device that a user agent describes, for statistics and for link rules, which use the same names. */

import Bowser from 'bowser';
import { isBotAgent } from '#common/bots.ts';
import { readUserAgent } from './user-agent.ts';

export const clickPlatforms = ['ios', 'android', 'desktop', 'other'] as const;
export type ClickPlatform = (typeof clickPlatforms)[number];

export interface ClickDevice {
  readonly platform: ClickPlatform;
  readonly os: string;
  readonly os_version: string;
  readonly browser: string;
  readonly device_model: string;
  /** The user agent identifies itself as a crawler, a library or a tool. */
  readonly isBot: boolean;
}

const desktopSystems = new Set(['Windows', 'macOS', 'Linux', 'Chrome OS', 'FreeBSD', 'OpenBSD', 'NetBSD']);
const columnCharsMax = 64;

/** Phones and tablets are parsed as in matching, desktops by the library. */
export function deviceOf(userAgent: string): ClickDevice {
  const { browser, os, platform } = Bowser.parse(userAgent === '' ? ' ' : userAgent);
  const facts = readUserAgent(userAgent);
  const system = os.name ?? '';
  const isBot = isBotAgent(userAgent);
  const name = facts.app ?? browser.name ?? '';
  if (facts.family === 'other') {
    return {
      platform: desktopSystems.has(system) ? 'desktop' : 'other',
      os: system.slice(0, columnCharsMax),
      os_version: desktopVersion(system, os).slice(0, columnCharsMax),
      browser: name.slice(0, columnCharsMax),
      device_model: (platform.model ?? '').slice(0, columnCharsMax),
      isBot,
    };
  }
  return {
    platform: facts.family,
    os: facts.family === 'ios' ? 'iOS' : 'Android',
    os_version: facts.os_version.join('.').slice(0, columnCharsMax),
    browser: name.slice(0, columnCharsMax),
    device_model: facts.device_model.slice(0, columnCharsMax),
    isBot,
  };
}

/** Browsers report 10.15 on every later macOS. */
function desktopVersion(system: string, os: { version?: string; versionName?: string }): string {
  if (system === 'macOS' && /^10\.15\b/.test(os.version ?? '')) return '';
  return (system === 'Windows' ? os.versionName : os.version) ?? '';
}
