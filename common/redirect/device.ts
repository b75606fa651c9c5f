/**
 * The facts about a visitor that the answer needs: the platform's store, and whether to show a page instead of a redirect.
 * Everything else in the user agent is parsed later, in ingest, so that the visitor does not wait for it.
 */
import { isBotAgent } from '#common/bots.ts';
import { type ClickPlatform, deviceOf } from '#common/click-device.ts';
import { type DeviceFamily, familyOf } from '#common/device-family.ts';
import { clickField, textName } from '#common/log/click-line.ts';
import { clickTextMax, cut } from '#common/log/record.ts';
import { readUserAgent } from '#common/user-agent.ts';
import { mixed } from './even-hash.ts';
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
  /** Null until a rule of a link first needs them. */
  details: DeviceDetails | null;
}

/** What the rules of links ask of a device. */
export interface DeviceDetails {
  readonly platform: ClickPlatform;
  /** As in statistics, in lower case. */
  readonly browser: string;
  /** Numbers from the left; empty if unknown. */
  readonly os_version: readonly number[];
  /** If the version is unknown: it is this one or a later one. */
  readonly os_version_min: readonly number[];
  /** Of the user agent. */
  readonly hash: number;
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
    'link-?preview',
    'link preview',
    'urlpreview',
    'unfurl',
    'onebox',
    'mattermost-bot',
    'nextcloud[ -]server[ -]crawler',
    'nextcloud[ -]talk/\\d.*\\bbot\\b',
    'summalybot',
    'dingtalkbot-linkservice',
    'mediumbot-metatagfetcher',
    'guilded image proxy',
    'january/',
    'xing-contenttabreceiver',
    'wire link',
    'matrix-media-repo',
  ].join('|'),
  'i',
);

/** Servers of the fediverse; the web views of their apps name them too. Forks of Mastodon name it behind their HTTP library. */
const fediverseServer = new RegExp(
  `^(?!.*applewebkit).*\\b(?:${[
    ...[
      'mastodon',
      'glitch-?soc',
      'hometown',
      'ecko',
      'chuckya',
      'pleroma',
      'akkoma',
      'rebased',
      'friendica',
      'hubzilla',
      'streams',
    ],
    ...[
      'misskey',
      'firefish',
      'calckey',
      'foundkey',
      'sharkey',
      'iceshrimp(?:\\.net)?',
      'catodon',
      'cherrypick',
      'magnetar',
    ],
    ...[
      'rocket\\.chat',
      'lemmy',
      'piefed',
      'k?bin',
      'kbinbot',
      'mbin',
      'gotosocial',
      'pixelfed',
      'peertube',
      'bookwyrm',
      'mobilizon',
      'takahe',
    ],
    ...[
      'snac',
      'writefreely',
      'owncast',
      'smithereen',
      'socialhome',
      'wafrn',
      'mitra',
      'honk',
      'microblogpub',
      'bonfire',
      'ktistec',
    ],
  ].join('|')})(?:/|\\s*v?\\d|\\s*[;('"]|-|$)`,
  'i',
);

function showsPreviews(userAgent: string): boolean {
  return previewCrawler.test(userAgent) || fediverseServer.test(userAgent);
}

export function visitorDeviceOf(userAgent: string): VisitorDevice {
  return {
    platform: familyOf(userAgent),
    isPreviewCrawler: showsPreviews(userAgent),
    json: inOnePiece(clickField('user_agent', userAgent) + textName('ip')),
    isBot: null,
    details: null,
  };
}

/** Parsing costs more than a redirect, so it happens only for links with rules that need it, once per user agent. */
export function detailsOf(device: VisitorDevice, userAgent: string): DeviceDetails {
  device.details ??= parsedDetails(cut(userAgent, clickTextMax.user_agent));
  return device.details;
}

function parsedDetails(userAgent: string): DeviceDetails {
  const { platform, browser } = deviceOf(userAgent);
  const { os_version, os_version_min } = readUserAgent(userAgent);
  return { platform, browser: browser.toLowerCase(), os_version, os_version_min, hash: mixed(0, userAgent) };
}

/** As ingest classifies it. Only on demand: most links do not need it, and it costs more than a redirect. */
export function isBot(device: VisitorDevice, userAgent: string): boolean {
  device.isBot ??= isBotAgent(userAgent);
  return device.isBot;
}

/** A bot, or a crawler that shows a preview: its visits use up nothing of a limited link. */
export function isProgram(device: VisitorDevice, userAgent: string): boolean {
  return device.isPreviewCrawler || isBot(device, userAgent);
}

/** When either limit is reached, the map is cleared: strings in use are back within a second. */
const devicesMax = 20_000;
const bytesMax = 33_554_432;
/** At worst two-byte characters for the key, the record's ASCII, and the objects around them. */
const bytesOf = (userAgent: string, device: VisitorDevice) => 2 * userAgent.length + device.json.length + 600;

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
