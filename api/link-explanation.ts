/**
 * Explains why a link leads a visitor where it does. The redirector's own code makes the decision (common/redirect);
 * this file describes it in words, with the content of the association files and what a match would need.
 */
import type { AppSettings } from '#common/links/app-snapshot.ts';
import type { ClickLimit } from '#common/links/link.ts';
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import { pathOfCode } from '#common/links/short-code.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import { androidAssociation, appleAssociation } from '#common/redirect/association.ts';
import type { RuleCondition } from '#common/redirect/compiled-rules.ts';
import type { RedirectRule } from '#common/redirect/plan.ts';
import { imaginedAnswer, refusalAnswer, type VisitAnswer } from '#common/redirect/visit-answer.ts';

/** The subject of the explanation. */
export interface ExplainedLink {
  readonly app: LinkedApp;
  readonly link: LinkSnapshot;
  readonly clickLimit: ClickLimit | null;
  readonly settings: Pick<AppSettings, 'attribution_window_hours' | 'probabilistic_window_hours' | 'min_confidence'>;
  /** Whether the app's host is verified, so that redirectors serve it. */
  readonly isHostVerified: boolean;
}

export interface ExplainedVisit {
  readonly user_agent: string;
  readonly language?: string;
  /** ISO 3166 alpha-2. */
  readonly country?: string;
  readonly ip?: string;
  /** Whether the app is on the device. */
  readonly installed?: boolean;
  readonly accept?: string;
  /** Query parameters of the visit, without the question mark. */
  readonly query?: string;
}

/** As browsers send it. */
const browserAccept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
/** Stands for the id of a real click. */
export const PLACEHOLDER_CLICK_ID = `clk_${'0'.repeat(26)}`;

export type ExplainedRule = RedirectRule | 'host_not_verified';

export interface AssociationExplanation {
  readonly file: string | null;
  readonly status: number | null;
  /** Whether the phone opens the app instead of the link, if the app is installed and supports it. */
  readonly opens_app: boolean;
}

export interface MatchExplanation {
  readonly possible: boolean;
  readonly certain_by: readonly ('url' | 'click_id' | 'install_referrer' | 'clipboard_url')[];
  readonly by_signals_hours: number;
}

export interface LinkExplanation {
  readonly url: string;
  readonly platform: 'ios' | 'android' | 'other';
  readonly is_bot: boolean;
  readonly outcome: VisitAnswer['outcome'];
  readonly rule: ExplainedRule;
  readonly rule_index: number | null;
  readonly variant: number | null;
  readonly rule_id: string | null;
  readonly rules_passed_over: readonly { readonly index: number; readonly condition: RuleCondition }[];
  readonly status: number;
  readonly location: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly association: AssociationExplanation;
  readonly match: MatchExplanation;
  readonly sentences: readonly string[];
}

export function explainLink(
  explained: ExplainedLink,
  visit: ExplainedVisit,
  nowMs: number,
  shortUrl: ShortUrl,
): LinkExplanation {
  const { app, link } = explained;
  const answer = answerOf(explained, visit, nowMs, shortUrl);
  const association = associationOf(app, answer.device.platform, pathOfCode(link.short_code));
  const match = matchOf(explained, answer, association);
  return {
    url: shortUrl(app.host, link.short_code),
    platform: answer.device.platform,
    is_bot: answer.isBot,
    outcome: answer.outcome,
    rule: answer.rule,
    rule_index: answer.target?.index ?? null,
    variant: answer.target?.variant ?? null,
    rule_id: answer.ruleId || null,
    rules_passed_over: answer.ruleConditions.flatMap((condition, index) =>
      condition === null ? [] : [{ index, condition }],
    ),
    status: answer.status,
    location: answer.headers['Location'] ?? null,
    headers: answer.headers,
    association,
    match,
    sentences: [
      visitorSentence(answer),
      ...passedOverSentences(answer, visit),
      decisionSentence(answer),
      outcomeSentence(answer),
      ...limitSentences(explained),
      ...ignoredSentences(link, visit),
      associationSentence(app, answer, association, visit.installed),
      ...matchSentences(explained, answer, match),
    ],
  };
}

type Answer = Omit<VisitAnswer, 'rule'> & { readonly rule: ExplainedRule };

function answerOf(
  { app, link, clickLimit, isHostVerified }: ExplainedLink,
  { user_agent, language = '', country = '', ip = '', accept = browserAccept, query = '' }: ExplainedVisit,
  nowMs: number,
  shortUrl: ShortUrl,
): Answer {
  const visit = { user_agent, language, country, ip, accept, query, clickId: PLACEHOLDER_CLICK_ID };
  const answer = imaginedAnswer({ app, link }, visit, nowMs, shortUrl, isUsedUp(clickLimit));
  if (isHostVerified) return answer;
  const noRule = { target: null, ruleId: '', ruleConditions: [] };
  return { ...answer, ...noRule, rule: 'host_not_verified', ...refusalAnswer('not_found', accept, null) };
}

function isUsedUp(limit: ClickLimit | null): boolean {
  return limit !== null && limit.left + limit.held === 0;
}

function associationOf(app: LinkedApp, platform: Answer['device']['platform'], path: string): AssociationExplanation {
  if (platform === 'other') return { file: null, status: null, opens_app: false };
  const isIos = platform === 'ios';
  const json = isIos ? appleAssociation(app) : androidAssociation(app);
  return {
    file: isIos ? '/.well-known/apple-app-site-association' : '/.well-known/assetlinks.json',
    status: json === null ? 404 : 200,
    // Android's file covers the whole host.
    opens_app: json !== null && (!isIos || listsPath(json, path)),
  };
}

/** Whether Apple's file assigns a path to the app: the first matching component decides. */
function listsPath(json: string, path: string): boolean {
  const { applinks } = JSON.parse(json) as {
    applinks: { details: { components: { '/': string; exclude?: boolean }[] }[] };
  };
  for (const { components } of applinks.details) {
    const first = components.find((one) => isLike(path, one['/']));
    if (first !== undefined) return first.exclude !== true;
  }
  return false;
}

/** `*` matches any text. */
function isLike(path: string, pattern: string): boolean {
  const parts = pattern.split('*').map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(path);
}

function matchOf(
  { app, settings }: ExplainedLink,
  { device, isBot, outcome }: Answer,
  association: AssociationExplanation,
): MatchExplanation {
  const { platform } = device;
  const hasApp = platform !== 'other' && app[platform] !== null;
  const isClick = !isBot && (outcome === 'redirect' || outcome === 'tap_page' || outcome === 'expired');
  if (!hasApp || !isClick) return { possible: false, certain_by: [], by_signals_hours: 0 };
  const certain: MatchExplanation['certain_by'] = [
    ...(association.opens_app ? (['url'] as const) : []),
    'click_id',
    ...(platform === 'android' ? (['install_referrer'] as const) : []),
    ...(platform === 'ios' && outcome === 'tap_page' ? (['clipboard_url'] as const) : []),
  ];
  const hours = app.privacy_mode === 'no_ip' ? 0 : settings.probabilistic_window_hours;
  return { possible: true, certain_by: certain, by_signals_hours: hours };
}

const platformNames = {
  ios: 'an iPhone or iPad',
  android: 'an Android device',
  other: 'a desktop, or a device without a known store',
};

function visitorSentence({ device, isBot }: Answer): string {
  const what = `The user agent belongs to ${platformNames[device.platform]}`;
  if (device.isPreviewCrawler)
    return `${what}, and to a program that shows link previews: its visit is counted as a bot's.`;
  return isBot ? `${what}, and to a bot: its visit is not counted as a person's click.` : `${what}.`;
}

const ruleSentences: Readonly<Record<ExplainedRule, string>> = {
  host_not_verified: "The app's host is not verified yet, so redirectors do not serve it.",
  'link.archived': 'The link is archived, so it gets the same answer as an unknown link.',
  'link.expires_at': 'The link has expired and has no expired_url.',
  'link.expired_url': 'The link has expired, and its expired_url decides.',
  'link.max_clicks': 'The link has reached its max_clicks, so it has ended.',
  'link.rules': 'A rule of the link decides.',
  'link.password': 'The link has a password, so visitors must enter it before anything else is decided.',
  'link.og': 'The link has og_* fields, which preview crawlers get as a page.',
  'link.ios_url': "The link's ios_url decides.",
  'app.ios.app_store_id': "The link has no ios_url, so the App Store page of the app's ios.app_store_id decides.",
  'link.android_url': "The link's android_url decides.",
  'app.android.package_name':
    "The link has no android_url, so the Google Play page of the app's android.package_name decides.",
  'link.fallback_url': "No destination is specific to this platform, so the link's fallback_url decides.",
  'app.fallback_url': "Neither this platform nor the link has a destination, so the app's fallback_url decides.",
  none: 'Neither the link nor its app has a destination for this platform.',
};

function decisionSentence({ rule, target }: Answer): string {
  if (target === null) return ruleSentences[rule];
  const variant = target.variant === null ? '' : `, with variants[${target.variant}] for this address and user agent`;
  return `All conditions of rules[${target.index}] hold, so it decides${variant}.`;
}

function passedOverSentences({ ruleConditions }: Answer, visit: ExplainedVisit): string[] {
  return ruleConditions.flatMap((condition, index) => {
    if (condition === null) return [];
    if (condition === 'variants')
      return [`rules[${index}] is skipped: this address and user agent fall into none of its variants.`];
    const isMissing = (condition === 'country' || condition === 'language') && visit[condition] === undefined;
    const why = isMissing ? `, and no ${condition} is given` : '';
    return [`rules[${index}] is skipped: its ${condition} does not hold${why}.`];
  });
}

function outcomeSentence({ outcome, status, headers }: Answer): string {
  switch (outcome) {
    case 'redirect':
    case 'expired':
      return `The answer is ${status} to ${headers['Location']}.`;
    case 'tap_page':
      return 'The answer is a page with one button to the store (the tap page), because it is turned on for the link or its app and this is a browser.';
    case 'preview':
      return 'The answer is a page with the Open Graph and Twitter tags of the link.';
    case 'password':
      return 'The answer is a page that asks for the password.';
    case 'gone':
      return 'The answer is 410: the link has ended.';
    case 'not_found':
      return 'The answer is 404.';
  }
}

function limitSentences({ link, clickLimit }: ExplainedLink): string[] {
  if (clickLimit === null || isUsedUp(clickLimit)) return [];
  const { used, held, left } = clickLimit;
  return [
    `Of its ${link.max_clicks} max_clicks, ${used} are used, ${held} are reserved by redirectors, and ${left} are left.`,
  ];
}

function ignoredSentences({ rules }: LinkSnapshot, { country, language }: ExplainedVisit): string[] {
  const isAsked = (field: 'country' | 'language') => rules?.some((rule) => rule[field] !== undefined) === true;
  const found: string[] = [];
  if (country !== undefined && !isAsked('country'))
    found.push(
      'The country is recorded with the click, as are region and city if GEOIP_DB has them; it does not change where the link leads.',
    );
  if (language !== undefined && !isAsked('language'))
    found.push(
      'The language is recorded, and selects the language of a tap page; it does not change where the link leads.',
    );
  return found;
}

function associationSentence(
  app: LinkedApp,
  { device }: Answer,
  { file, status, opens_app }: AssociationExplanation,
  installed: boolean | undefined,
): string {
  if (file === null) return 'This platform uses no association file.';
  const isIos = device.platform === 'ios';
  if (status !== 200) {
    const needed = isIos
      ? 'ios.team_id and ios.bundle_id'
      : 'android.package_name and android.sha256_cert_fingerprints';
    return `${file} returns 404, because the app lacks ${needed}: the phone never opens the app directly.`;
  }
  if (!opens_app) return `${file} does not list this path: the phone does not open the app directly.`;
  const opened = `${isIos ? 'iOS' : 'Android'} opens the app directly, without a visit, if the link is tapped in another app that allows it`;
  if (installed === false)
    return `${file} lists this path, but the app is not installed, so the browser visits the link.`;
  const condition = installed === true ? '' : 'If the app is installed, ';
  const by = isIos ? `${app.ios?.team_id}.${app.ios?.bundle_id}` : (app.android?.package_name ?? '');
  return `${file} assigns this path to ${by}. ${condition}${opened}; if it is typed into a browser, or opened in most in-app browsers, the link is visited as described here.`;
}

function matchSentences(
  { app, settings }: ExplainedLink,
  { device, isBot, outcome }: Answer,
  match: MatchExplanation,
): string[] {
  if (!match.possible) {
    if (isBot) return ['Visits by bots are not matched to devices.'];
    if (outcome === 'not_found' || outcome === 'gone') return ['No click is recorded, so no device can be matched.'];
    if (outcome === 'password')
      return ['A click is recorded, and can be matched to a device, once the visitor enters the password.'];
    if (device.platform === 'other') return ['Only visits from phones and tablets are matched to devices.'];
    return [`The app has no ${device.platform} settings, so no device is matched to this visit.`];
  }
  const hours = `${settings.attribution_window_hours} hours`;
  const certain = [...match.certain_by].map((one) => evidenceSentences[one]);
  const signals =
    match.by_signals_hours > 0
      ? `Otherwise a device is matched by its signals if it asks within ${match.by_signals_hours} hours from the same address, and scores at least ${settings.min_confidence}.`
      : app.privacy_mode === 'no_ip'
        ? 'Otherwise it is not matched: the app records no addresses (privacy_mode no_ip).'
        : 'Otherwise it is not matched: probabilistic_window_hours of the app is 0.';
  return [
    `A device is matched to this click with certainty, within ${hours}, if its app sends ${certain.join(', or ')}.`,
    signals,
  ];
}

const evidenceSentences: Readonly<Record<MatchExplanation['certain_by'][number], string>> = {
  url: 'the link that opened it (url)',
  click_id: "the click's id (click_id)",
  install_referrer: 'the Google Play install referrer, which contains the id (install_referrer)',
  clipboard_url: 'the link that the tap page copied to the clipboard (clipboard_url)',
};
