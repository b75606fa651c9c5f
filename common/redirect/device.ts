/**
 * The facts about a visitor that the answer needs: the platform's store, and whether to show a page instead of a redirect.
 * Everything else in the user agent is parsed later, in ingest, so that the visitor does not wait for it.
 */
import { isbot } from 'isbot';
import { type DeviceFamily, familyOf } from '#common/device-family.ts';
import { clickField, textName } from '#common/log/click-line.ts';
import { clickTextMax, cut } from '#common/log/record.ts';
import { inOnePiece } from './one-piece.ts';

export type Platform = DeviceFamily;

export interface VisitorDevice {
  readonly platform: Platform;
  /** Fetches the page to show a preview in a chat or feed. */
  readonly isPreviewCrawler: boolean;
  /** The user agent as written in the record of a click, and the start of the address field, which follows it. */
  readonly json: string;
  /** Whether its user agent is a program's; null until first needed. */
  isBot: boolean | null;
}

/**
 * Names from the vendors' documentation of their link previews. In-app browsers of the same vendors (`[Pinterest/iOS]`,
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

export function visitorDeviceOf(userAgent: string): VisitorDevice {
  return {
    platform: familyOf(userAgent),
    isPreviewCrawler: previewCrawler.test(userAgent),
    json: inOnePiece(clickField('user_agent', userAgent) + textName('ip')),
    isBot: null,
  };
}

/** As ingest classifies it. Only on demand: most links do not need it, and it costs more than a redirect. */
export function isBot(device: VisitorDevice, userAgent: string): boolean {
  device.isBot ??= isbot(userAgent);
  return device.isBot;
}

/** When either limit is reached, the map is cleared: strings in use are back within a second. */
const devicesMax = 20_000;
const bytesMax = 33_554_432;
/** At worst two-byte characters for the key, the record's ASCII, and the objects around them. */
const bytesOf = (userAgent: string, device: VisitorDevice) => 2 * userAgent.length + device.json.length + 300;

/** Devices by user agent. */
export class Devices {
  readonly #known = new Map<string, VisitorDevice>();
  #bytes = 0;

  of(userAgent: string): VisitorDevice {
    const known = this.#known.get(userAgent);
    if (known !== undefined) return known;
    // Longer than any browser's and than the recorded part: not worth caching or scanning to the end.
    if (userAgent.length > clickTextMax.user_agent) return visitorDeviceOf(cut(userAgent, clickTextMax.user_agent));
    const device = visitorDeviceOf(userAgent);
    if (this.#known.size >= devicesMax || this.#bytes >= bytesMax) {
      this.#known.clear();
      this.#bytes = 0;
    }
    this.#known.set(userAgent, device);
    this.#bytes += bytesOf(userAgent, device);
    return device;
  }
}
