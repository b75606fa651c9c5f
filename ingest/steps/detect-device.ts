/**
 * Columns of the user agent: the agent itself, the device that it describes, and whether the click is a bot's and why.
 * Parsing an agent costs more than a redirect, and there are few distinct agents, so columns are cached: about 0.3 µs
 * for a known one.
 */
import { type ByteText, boolBytes, stringBytes } from '#clickhouse/row-binary.ts';
import { BoundedMap } from '#common/bounded-map.ts';
import { deviceOf } from '#common/click-device.ts';
import type { Click } from '#common/log/record.ts';
import type { Step } from './step.ts';

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
/** Bytes of an entry in addition to its texts. */
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

/** Why a click counts as a bot's; empty for a person. */
function botReason(click: Click, isBot: boolean): BotReason {
  if (click.is_preview) return 'preview';
  if (click.is_prefetch) return 'prefetch';
  if (isBot) return 'user_agent';
  return click.user_agent.trim() === '' ? 'no_user_agent' : '';
}
