/** The result of a visit. The parts that do not depend on the visitor are computed once per link and change. */
import { type UtmTexts, utmFrom } from '#common/campaign-fields.ts';
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import { ruleIdOf } from '#common/links/rule-id.ts';
import {
  type ClickLinkFields,
  clickHead,
  clickJson,
  clickText,
  flagsJson,
  linkFieldsJson,
  textName,
  timeName,
  triggerJson,
} from '#common/log/click-line.ts';
import type { Click } from '#common/log/record.ts';
import { CompiledRules, type Countries, type RuleCondition, RuledVisit, type RuleTarget } from './compiled-rules.ts';
import {
  type Destination,
  type DestinationRule,
  destinationOf,
  effectiveUtm,
  expiredDestinationOf,
  utmOf,
  webDestination,
} from './destination.ts';
import type { Platform, VisitorDevice } from './device.ts';
import { inOnePiece } from './one-piece.ts';
import { hasPreview, previewPage } from './page.ts';
import { TapPage } from './tap-page.ts';
import type { Visitor } from './visitor.ts';

/** What decides: a field of the link or the app; `none`: there is no destination. */
export type RedirectRule =
  | DestinationRule
  | 'link.archived'
  | 'link.expires_at'
  | 'link.expired_url'
  | 'link.max_clicks'
  | 'link.og'
  | 'link.rules'
  | 'link.password'
  | 'none';

export type RedirectDecision = { readonly rule: RedirectRule } & (
  | {
      readonly kind: 'redirect' | 'expired';
      readonly destination: Destination;
      /** The page before the destination, for people in a browser. */
      readonly tap: TapPage | null;
      /** Of the link's rules; null if none decided. */
      readonly target: RuleTarget | null;
      /** Of the target, as the click is recorded; empty without one. */
      readonly ruleId: string;
    }
  | { readonly kind: 'preview'; readonly html: string }
  | { readonly kind: 'password'; readonly hash: string }
  | { readonly kind: 'not_found' }
  | { readonly kind: 'gone' }
);

/** What every click of a link has in common. */
type ConstantFields = Omit<ClickLinkFields, keyof UtmTexts> & Pick<Click, 'trigger'>;

/** Each with the end of the text before it. */
const [languageName, referrerName, queryName, ruleName] = [
  `"${textName('language')}`,
  `"${textName('referrer')}`,
  `"${textName('query')}`,
  `"${textName('rule')}`,
];

let timeMs = -1;
let timeJson = '';

/** The time as written in a record, formatted once per millisecond. */
function timeText(ms: number): string {
  if (ms !== timeMs) {
    timeMs = ms;
    timeJson = timeName + ms;
  }
  return timeJson;
}

/** Of a visitor, as far as a decision depends on it. */
export type DecidedVisitor = Pick<Visitor, 'ip' | 'user_agent' | 'language'>;

/** Kept per link, so that rules with many variants take no more memory than the caches of links count. */
const ruleDecisionsMax = 16;

const archived: RedirectDecision = { kind: 'not_found', rule: 'link.archived' };
const leadsNowhere: RedirectDecision = { kind: 'not_found', rule: 'none' };

/** Why a link leads to its destination no more. */
type EndRule = 'link.expires_at' | 'link.max_clicks';

export class LinkPlan {
  readonly app: LinkedApp;
  readonly link: LinkSnapshot;
  /** Whether it leads only so many people on. */
  readonly isLimited: boolean;
  readonly #utm: UtmTexts;
  readonly #constant: ConstantFields;
  #constantJson: string;
  readonly #isArchived: boolean;
  /** Computed by the first visitor who needs it, since parsing URLs is most of the cost of a new link. */
  #onIos: RedirectDecision | undefined;
  #onAndroid: RedirectDecision | undefined;
  #onOther: RedirectDecision | undefined;
  /** Null without rules; undefined until the first visitor. */
  #rules: CompiledRules | null | undefined;
  /** Decisions of rules by target and platform. */
  #byTarget: Map<string, RedirectDecision | null> | undefined;
  readonly #expiresMs: number;
  readonly #preview: RedirectDecision | null;
  readonly #password: RedirectDecision | null;

  constructor(app: LinkedApp, link: LinkSnapshot) {
    this.app = app;
    this.link = link;
    this.isLimited = link.max_clicks !== null;
    this.#utm = utmOf(link);
    this.#constant = {
      organization_id: app.organization_id,
      app_id: app.id,
      link_id: link.id,
      privacy_mode: app.privacy_mode,
      trigger: 'link',
      campaign: link.campaign ?? '',
    };
    this.#constantJson = linkFieldsJson({ ...this.#constant, ...this.#utm }) + triggerJson(this.#constant.trigger);
    this.#isArchived = link.archived;
    this.#expiresMs = link.expires_at ?? Number.POSITIVE_INFINITY;
    this.#preview = hasPreview(link) ? { kind: 'preview', rule: 'link.og', html: previewPage(link, app) } : null;
    this.#rules = link.rules === null ? null : undefined;
    const { password_hash: hash } = link;
    this.#password = hash === null ? null : { kind: 'password', rule: 'link.password', hash };
  }

  /** Prepares the plan for repeated use, which makes each use cheaper. */
  prepare(): this {
    this.#constantJson = inOnePiece(this.#constantJson);
    return this;
  }

  /** @param countries of addresses; only rules with countries ask it. @param isUnlocked the visitor gave the password. @param isUsedUp nothing is left of its max_clicks. */
  decide(
    device: VisitorDevice,
    visitor: DecidedVisitor,
    nowMs: number,
    countries: Countries,
    isUnlocked = false,
    isUsedUp = false,
  ): RedirectDecision {
    if (this.#isArchived) return archived;
    if (nowMs >= this.#expiresMs) return this.#ended('link.expires_at');
    if (isUsedUp) return this.usedUp();
    if (device.isPreviewCrawler && this.#preview !== null) return this.#preview;
    if (this.#password !== null && !isUnlocked) return this.#password;
    if (this.#rules !== null) {
      const decision = this.#byRules(device, new RuledVisit(device, visitor, nowMs, countries));
      if (decision !== null) return decision;
    }
    switch (device.platform) {
      case 'ios':
        this.#onIos ??= this.#decisionOn('ios');
        return this.#onIos;
      case 'android':
        this.#onAndroid ??= this.#decisionOn('android');
        return this.#onAndroid;
      case 'other':
        this.#onOther ??= this.#decisionOn('other');
        return this.#onOther;
    }
  }

  /** For each rule up to the one that decides: the condition that does not hold, or null. */
  explainRules(device: VisitorDevice, visitor: DecidedVisitor, nowMs: number, countries: Countries) {
    const visit = new RuledVisit(device, visitor, nowMs, countries);
    return this.#compiledRules()?.explain(visit) ?? ([] satisfies RuleCondition[]);
  }

  #compiledRules(): CompiledRules | null {
    const { id, rules } = this.link;
    if (this.#rules === undefined) this.#rules = rules === null ? null : new CompiledRules(id, rules);
    return this.#rules;
  }

  /** Null if no rule holds. */
  #byRules(device: VisitorDevice, visit: RuledVisit): RedirectDecision | null {
    const target = this.#compiledRules()?.choose(visit) ?? null;
    if (target === null) return null;
    const { platform } = device;
    this.#byTarget ??= new Map();
    const key = `${target.index} ${target.variant} ${platform}`;
    let decision = this.#byTarget.get(key);
    if (decision === undefined) {
      const destination = webDestination(target.url, this.#utm, this.app);
      decision = destination && this.#redirect('link.rules', destination, platform, target);
      if (this.#byTarget.size >= ruleDecisionsMax) this.#byTarget.clear();
      this.#byTarget.set(key, decision);
    }
    return decision;
  }

  /** The decision for a visitor who came too late. */
  usedUp(): RedirectDecision {
    return this.#ended('link.max_clicks');
  }

  #ended(rule: EndRule): RedirectDecision {
    const destination = expiredDestinationOf(this.link, this.app);
    if (destination === null) return { kind: 'gone', rule };
    const decides = rule === 'link.expires_at' ? 'link.expired_url' : rule;
    return { kind: 'expired', rule: decides, destination, tap: null, target: null, ruleId: '' };
  }

  #decisionOn(platform: Platform): RedirectDecision {
    const found = destinationOf(this.link, this.app, platform);
    if (found === null) return leadsNowhere;
    return this.#redirect(found.rule, found.destination, platform, null);
  }

  #redirect(
    rule: RedirectRule,
    destination: Destination,
    platform: Platform,
    target: RuleTarget | null,
  ): RedirectDecision {
    const tap = platform === 'other' ? null : TapPage.of(this.link, this.app, platform, destination);
    const ruleId = target === null ? '' : ruleIdOf(this.link.id, target.rule, target.url);
    return { kind: 'redirect', rule, destination, tap, target, ruleId };
  }

  /** The record of a visit, as `clickJson` writes it. @param ruleId of the decision. */
  record(
    clickId: string,
    visitor: Visitor,
    device: VisitorDevice,
    isPreview: boolean,
    nowMs: number,
    ruleId = '',
  ): string {
    if (visitor.query.includes('utm_')) return clickJson(this.click(clickId, visitor, isPreview, nowMs, ruleId));
    const { ip, language, referrer, query } = visitor;
    // Few pieces with long constants between them: each `+` is a node that the journal has to traverse.
    let json = clickHead + clickId + timeText(nowMs) + this.#constantJson + device.json + ip;
    if (language !== '') json += languageName + clickText('language', language);
    if (referrer !== '') json += referrerName + clickText('referrer', referrer);
    if (query !== '') json += queryName + clickText('query', query);
    if (ruleId !== '') json += ruleName + ruleId;
    if (visitor.is_prefetch || isPreview)
      return `${json}"${flagsJson({ is_prefetch: visitor.is_prefetch, is_preview: isPreview })}`;
    return `${json}"}`;
  }

  click(clickId: string, visitor: Visitor, isPreview: boolean, nowMs: number, rule = ''): Click {
    return {
      click_id: clickId,
      time: nowMs,
      is_preview: isPreview,
      rule,
      ...visitor,
      ...this.#constant,
      ...effectiveUtm(this.#utm, visitor.query),
    };
  }
}

const noUtm = utmFrom(() => '');

/** The destination of the bare host. */
export function rootDestinationOf(app: LinkedApp): Destination | null {
  return webDestination(app.fallback_url, noUtm, app);
}
