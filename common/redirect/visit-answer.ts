/** What a visit is answered with, as the redirector sends it and as the API explains it: one decision, made here. */
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import { type AnswerHeaders, pageHeaders, refusalHeaders } from './answer-headers.ts';
import type { Countries, RuleCondition, RuleTarget } from './compiled-rules.ts';
import { redirectOf } from './destination.ts';
import { isBot, type VisitorDevice, visitorDeviceOf } from './device.ts';
import { type PageReason, refusals } from './page.ts';
import { passwordPolicy } from './password-page.ts';
import { LinkPlan, type RedirectDecision, type RedirectRule } from './plan.ts';
import { wantsJson } from './visitor.ts';

/** Whether a visitor is shown the tap page of a link that has one, and not redirected. */
export function opensTapPage(accept: string, isPrefetch: boolean, device: VisitorDevice, userAgent: string): boolean {
  return !isPrefetch && accept.includes('text/html') && !isBot(device, userAgent);
}

/** A GET of a link by someone who does not prefetch. */
export interface ImaginedVisit {
  readonly user_agent: string;
  readonly accept: string;
  /** The Accept-Language header. */
  readonly language: string;
  readonly ip: string;
  /** Of the address; empty if unknown. */
  readonly country: string;
  /** Without its question mark. */
  readonly query: string;
  /** Stands for the id of the click that the visit would be. */
  readonly clickId: string;
}

export interface VisitAnswer {
  readonly device: VisitorDevice;
  readonly isBot: boolean;
  readonly outcome: RedirectDecision['kind'] | 'tap_page';
  readonly rule: RedirectRule;
  /** The rule of the link that decides; null if none does. */
  readonly target: RuleTarget | null;
  /** The id of that rule, as the click would be recorded; empty without one. */
  readonly ruleId: string;
  /** For each rule of the link up to that one: the condition that does not hold, or null. Empty if rules are not asked. */
  readonly ruleConditions: readonly (RuleCondition | null)[];
  readonly status: number;
  readonly headers: AnswerHeaders;
}

/** The answer to a visit that does not happen. @param shortUrl of the redirector's settings. @param isUsedUp nothing is left of its max_clicks. */
export function imaginedAnswer(
  { app, link }: { readonly app: LinkedApp; readonly link: LinkSnapshot },
  visit: ImaginedVisit,
  nowMs: number,
  shortUrl: ShortUrl,
  isUsedUp = false,
): VisitAnswer {
  const device = visitorDeviceOf(visit.user_agent);
  const countries: Countries = { countryOf: () => visit.country };
  const plan = new LinkPlan(app, link);
  const decision = plan.decide(device, visit, nowMs, countries, false, isUsedUp);
  const { rule } = decision;
  const asksRules = decision.kind === 'redirect' || rule === 'none';
  const about = {
    ...{ device, isBot: isBot(device, visit.user_agent), rule },
    target: decision.kind === 'redirect' ? decision.target : null,
    ruleId: decision.kind === 'redirect' ? decision.ruleId : '',
    ruleConditions: asksRules ? plan.explainRules(device, visit, nowMs, countries) : [],
  };
  switch (decision.kind) {
    case 'not_found':
    case 'gone':
      return { ...about, ...refusalAnswer(decision.kind, visit.accept, app) };
    case 'password':
      return { ...about, outcome: 'password', status: 200, headers: pageHeaders(passwordPolicy) };
    case 'preview':
      return { ...about, outcome: 'preview', status: 200, headers: pageHeaders() };
    case 'redirect':
    case 'expired': {
      const { tap, destination } = decision;
      const { user_agent, accept, language, query, clickId } = visit;
      const isShown =
        tap !== null &&
        opensTapPage(accept, false, device, user_agent) &&
        tap.html({ clickId, query, user_agent, language, token: '', shortUrl }) !== null;
      if (isShown) return { ...about, outcome: 'tap_page', status: 200, headers: pageHeaders(tap.policy) };
      return { ...about, outcome: decision.kind, ...headOf(redirectOf(destination, query, clickId)) };
    }
  }
}

/** The answer to a visit of a link that is not served. */
export function refusalAnswer(
  reason: Extract<PageReason, 'not_found' | 'gone'>,
  accept: string,
  app: LinkedApp | null,
): Pick<VisitAnswer, 'outcome' | 'status' | 'headers'> {
  return {
    outcome: reason,
    status: Number.parseInt(refusals[reason].status, 10),
    headers: refusalHeaders(reason, wantsJson(accept), app),
  };
}

/** Status and headers of a redirect as it is sent: the status line with the constant headers. */
function headOf(redirect: string): Pick<VisitAnswer, 'status' | 'headers'> {
  const [status = '', ...lines] = redirect.split('\r\n');
  const headers = Object.fromEntries(lines.map((line) => line.split(/: (.*)/s, 2)));
  return { status: Number.parseInt(status, 10), headers };
}
