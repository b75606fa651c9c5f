/**
 * What the redirector has to know about a visitor at once: which store is theirs, and whether a page instead of a redirect
 * is wanted. Everything else that a user agent tells is worked out later, away from the visitor's waiting.
 */
import { isbot } from 'isbot';
import { type DeviceFamily, familyOf } from '#common/device-family.ts';
import { clickField, textName } from '#common/log/click-line.ts';
import { clickTextMax, cut } from '#common/log/record.ts';
import { inOnePiece } from './one-piece.ts';

export type Platform = DeviceFamily;

export interface Device {
  readonly platform: Platform;
  /** Fetches the page to show a preview of it in a chat or feed. */
  readonly isPreviewCrawler: boolean;
  /** The user agent as it stands in the record of a click, and the beginning of the address, which comes next. */
  readonly json: string;
  /** Whether its user agent is a program's; null until it was asked for. */
  isBot: boolean | null;
}

/**
 * Names from the operators' pages on their link previews. In-app browsers of the same firms (`[Pinterest/iOS]`,
 * `Instagram 300.0`, `WhatsApp` opens the system's browser) must not match.
 */
const previewCrawler = new RegExp(
  [
    'facebookexternalhit',
    'facebot\\b',
    'meta-externalfetcher',
    'twitterbot',
    'linkedinbot',
    'slackbot',
    'slack-imgproxy',
    'discordbot',
    'telegrambot',
    '^whatsapp/',
    '^viber/',
    'pinterestbot',
    'pinterest/0\\.',
    'redditbot',
    'skypeuripreview',
    'microsoftpreview',
    'bingpreview',
    'vkshare',
    'line-poker',
    'kakaotalk-scrap',
    'snap url preview',
    'iframely',
    'embedly',
    '^mastodon/',
    'bluesky cardyb',
    'google-pagerenderer',
    'googlemessages',
    'developers\\.google\\.com/\\+/web/snippet',
    'yahoo link preview',
    'tumblr/14',
    'synapse \\(bot',
    'zoombot',
    'intercom.*linkpreview',
    'notionembedder',
    'flipboardproxy',
    'opengraph',
  ].join('|'),
  'i',
);

export function deviceOf(userAgent: string): Device {
  return {
    platform: familyOf(userAgent),
    isPreviewCrawler: previewCrawler.test(userAgent),
    json: inOnePiece(clickField('user_agent', userAgent) + textName('ip')),
    isBot: null,
  };
}

/** As ingest judges it. Not worked out with the rest: most links do not ask, and it costs more than a redirect. */
export function isBot(device: Device, userAgent: string): boolean {
  device.isBot ??= isbot(userAgent);
  return device.isBot;
}

/** When one of the two is reached it starts anew: the strings in use are back within a second. */
const devicesMax = 20_000;
const bytesMax = 33_554_432;
/** The key of two-byte characters at worst, the record's ASCII, and the objects around them. */
const bytesOf = (userAgent: string, device: Device) => 2 * userAgent.length + device.json.length + 300;

/** Devices by user agent. */
export class Devices {
  readonly #known = new Map<string, Device>();
  #bytes = 0;

  of(userAgent: string): Device {
    const known = this.#known.get(userAgent);
    if (known !== undefined) return known;
    // Longer than any browser's, and than what is recorded of it: not worth its room, nor searching it to its end.
    if (userAgent.length > clickTextMax.user_agent) return deviceOf(cut(userAgent, clickTextMax.user_agent));
    const device = deviceOf(userAgent);
    if (this.#known.size >= devicesMax || this.#bytes >= bytesMax) {
      this.#known.clear();
      this.#bytes = 0;
    }
    this.#known.set(userAgent, device);
    this.#bytes += bytesOf(userAgent, device);
    return device;
  }
}
