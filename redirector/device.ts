/**
 * What the redirector has to know about a visitor at once: which store is theirs, and whether a page instead of a redirect
 * is wanted. Everything else that a user agent tells is worked out later, away from the visitor's waiting.
 */
import { type DeviceFamily, familyOf } from '#common/device-family.ts';
import { clickField, inOnePiece } from './click-field.ts';

export type Platform = DeviceFamily;

export interface Device {
  readonly platform: Platform;
  /** Fetches the page to show a preview of it in a chat or feed. */
  readonly isPreviewCrawler: boolean;
  /** The user agent as it stands in the record of a click, and the beginning of the address, which comes next. */
  readonly json: string;
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
    json: inOnePiece(`${clickField('user_agent', userAgent)},"ip":"`),
  };
}

const devicesMax = 20_000;

/** Devices by user agent. When it is full it starts anew: the strings in use are back within a second. */
export class Devices {
  readonly #known = new Map<string, Device>();

  of(userAgent: string): Device {
    const known = this.#known.get(userAgent);
    if (known !== undefined) return known;
    const device = deviceOf(userAgent);
    if (this.#known.size >= devicesMax) this.#known.clear();
    this.#known.set(userAgent, device);
    return device;
  }
}
