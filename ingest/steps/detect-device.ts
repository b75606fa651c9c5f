/**
 * Columns of the user agent: the agent itself, what it says of the device, and whether the click is a bot's and why. Parsing an
 * agent costs more than a redirect, and people use few distinct agents, so columns are cached: about 0.3 µs for a known one.
 */
import Bowser from 'bowser';
import { isbot } from 'isbot';
import { type ByteText, boolBytes, stringBytes } from '#clickhouse/row-binary.ts';
import { BoundedMap } from '#common/bounded-map.ts';
import type { Click } from '#common/log/record.ts';
import { readUserAgent } from '#common/user-agent.ts';
import type { Step } from './step.ts';

export const platforms = ['ios', 'android', 'desktop', 'other'] as const;
export type ClickPlatform = (typeof platforms)[number];

export interface ClickDevice {
  readonly platform: ClickPlatform;
  readonly os: string;
  readonly os_version: string;
  readonly browser: string;
  readonly device_model: string;
  /** The agent names itself a crawler, a library or a tool. */
  readonly isBot: boolean;
}

const desktopSystems = new Set(['Windows', 'macOS', 'Linux', 'Chrome OS', 'FreeBSD', 'OpenBSD', 'NetBSD']);
const columnCharsMax = 64;

/** Phones and tablets are read as matching reads them, desktops by the parser. */
export function deviceOf(userAgent: string): ClickDevice {
  const { browser, os, platform } = Bowser.parse(userAgent === '' ? ' ' : userAgent);
  const facts = readUserAgent(userAgent);
  const system = os.name ?? '';
  const isBot = isbot(userAgent);
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

/** Browsers say 10.15 on every later macOS. */
function desktopVersion(system: string, os: { version?: string; versionName?: string }): string {
  if (system === 'macOS' && /^10\.15\b/.test(os.version ?? '')) return '';
  return (system === 'Windows' ? os.versionName : os.version) ?? '';
}

interface DeviceColumns {
  readonly encoded: ByteText;
  readonly isBot: boolean;
  readonly bytes: number;
  isUsed: boolean;
}

const botReasons = ['', 'preview', 'prefetch', 'no_user_agent', 'user_agent'] as const;
type BotReason = (typeof botReasons)[number];
const encodedReasons = new Map<BotReason, ByteText>(
  botReasons.map((reason) => [reason, boolBytes(reason !== '') + stringBytes(reason)]),
);
const agentsMax = 50_000;
const bytesMax = 64_000_000;
/** Bytes of an entry beside its texts. */
const entryBytes = 150;

export function detectDevice(): Step<'detect_device'> {
  const known = new BoundedMap<DeviceColumns>(agentsMax, bytesMax);
  return {
    name: 'detect_device',
    columns: ['user_agent', 'platform', 'os', 'os_version', 'browser', 'device_model', 'is_bot', 'bot_reason'],
    reads: ['user_agent', 'is_preview', 'is_prefetch'],
    columnsOf: (click) => {
      let device = known.get(click.user_agent);
      if (device === undefined) {
        device = encode(click.user_agent);
        known.set(click.user_agent, device);
      }
      return device.encoded + (encodedReasons.get(botReason(click, device.isBot)) ?? '');
    },
  };
}

function encode(userAgent: string): DeviceColumns {
  const { platform, os, os_version, browser, device_model, isBot } = deviceOf(userAgent);
  const encoded = [userAgent, platform, os, os_version, browser, device_model].map(stringBytes).join('');
  return { encoded, isBot, bytes: entryBytes + userAgent.length + encoded.length, isUsed: false };
}

/** Why a click is a bot's; empty for a person. */
function botReason(click: Click, isBot: boolean): BotReason {
  if (click.is_preview) return 'preview';
  if (click.is_prefetch) return 'prefetch';
  if (isBot) return 'user_agent';
  return click.user_agent.trim() === '' ? 'no_user_agent' : '';
}
