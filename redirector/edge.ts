/**
 * The short-link edge: resolve → platform → destination → record → answer.
 *
 * A visit of a cached link creates no promise: it is resolved inside the request handler, its click goes to the
 * journal, and the answer is sent once the journal has written it, at the end of the same turn of the event loop.
 */
import type { AddressWriter } from '#common/address-writer.ts';
import type { Clock } from '#common/clock.ts';
import type { Connections } from '#common/http/connections.ts';
import { TrustedProxies } from '#common/http/peer.ts';
import type { HttpRequest, HttpResponse } from '#common/http/uws.ts';
import { newId } from '#common/ids.ts';
import { askingAgent } from '#common/links/link-asks.ts';
import type { FoundLink, LinkCache } from '#common/links/link-cache.ts';
import type { LinkedApp } from '#common/links/link-snapshot.ts';
import type { LongLinks } from '#common/links/long-links.ts';
import type { QueryFilter } from '#common/links/query-filter.ts';
import { codeOfPath, lowerCode } from '#common/links/short-code.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import { pageHeaders } from '#common/redirect/answer-headers.ts';
import type { Countries } from '#common/redirect/compiled-rules.ts';
import { redirectOf } from '#common/redirect/destination.ts';
import { Devices, isBot, isProgram, type VisitorDevice } from '#common/redirect/device.ts';
import { passwordPage, passwordPolicy } from '#common/redirect/password-page.ts';
import { LinkPlan, type RedirectDecision } from '#common/redirect/plan.ts';
import type { TapPage } from '#common/redirect/tap-page.ts';
import { opensTapPage } from '#common/redirect/visit-answer.ts';
import { type Visitor, wantsJson } from '#common/redirect/visitor.ts';
import { type ResponseOptions, sendText } from './answer.ts';
import type { ClickLanes } from './click-lanes.ts';
import type { ClickOutcome } from './click-shares.ts';
import type { Counters } from './counters.ts';
import type { EdgeOptions } from './edge-options.ts';
import { Hops } from './hops.ts';
import { appPaths, sendHostFile } from './host-files.ts';
import { KnownLinks } from './known-links.ts';
import { LinkUnlocks } from './link-unlocks.ts';
import { longLinkVisit } from './long-link-visits.ts';
import type { OrphanVisits } from './orphan-visits.ts';
import type { Receiver, Receivers } from './receiver.ts';
import type { SignalTokens } from './signal-token.ts';
import { UnrecordedAnswers } from './unrecorded-answers.ts';
import { Visit, type VisitState } from './visit.ts';
import { acceptOf, headerFacts, hostHeaderOf, isHost, readVisitor, recordedVisitor, requestHostOf } from './visitor.ts';

export class Edge {
  readonly counters: Counters;
  readonly state: VisitState;
  readonly receivers: Receivers;
  readonly #answers: UnrecordedAnswers;
  readonly #cache: LinkCache;
  readonly #journal: EdgeOptions['journal'];
  readonly #lanes: ClickLanes;
  /** This machine's, for records: ingest knows how wrong it is. */
  readonly #clock: Clock;
  /** Shared by all processes, for what others have set, such as the end of a link. */
  readonly #storeClock: Clock;
  readonly #proxies: TrustedProxies | null;
  readonly #addresses: AddressWriter;
  readonly #queryFilter: QueryFilter;
  readonly #tokens: SignalTokens;
  readonly #shortUrl: ShortUrl;
  readonly #countries: Countries;
  readonly #orphans: Pick<OrphanVisits, 'count'>;
  readonly #longLinks: Pick<LongLinks, 'find'>;
  readonly #asked: EdgeOptions['asked'];
  readonly #shares: EdgeOptions['shares'];
  readonly #devices = new Devices();
  readonly #hops: Hops;
  readonly #known: KnownLinks;
  readonly #unlocks: LinkUnlocks;

  constructor(options: EdgeOptions) {
    const { cache, journal, lanes, clock, trustedProxies, proxySecret, addresses, queryFilter } = options;
    this.#cache = cache;
    this.#known = new KnownLinks(cache);
    this.#journal = journal;
    this.#lanes = lanes;
    this.#clock = clock;
    this.#storeClock = cache.clock;
    this.#proxies = trustedProxies.length === 0 ? null : new TrustedProxies(trustedProxies, proxySecret);
    this.#addresses = addresses;
    this.#queryFilter = queryFilter;
    this.#tokens = options.tokens;
    this.receivers = options.receivers;
    this.#shortUrl = options.shortUrl;
    this.#countries = options.countries;
    this.#orphans = options.orphans;
    this.#longLinks = options.longLinks;
    this.#asked = options.asked;
    this.#shares = options.shares;
    this.#unlocks = new LinkUnlocks(cache.clock);
    this.#hops = new Hops(cache.apps);
    this.#answers = new UnrecordedAnswers(this.#devices, cache.clock, options.countries, options.shares, this.#hops);
    this.counters = this.#answers.counters;
    this.state = this.#answers.state;
  }

  /** The hot path: visits of cached links. All other requests continue in `lookUp`. */
  get(res: HttpResponse, req: HttpRequest, connections: Connections): void {
    const nowMs = this.#storeClock();
    const plan = this.#known.find(hostHeaderOf(req), req.getUrl(), nowMs);
    if (plan !== undefined) {
      const { isAmbiguous, hasLength, isPrefetch } = headerFacts(req);
      if (!isAmbiguous && !hasLength) {
        const visitor = readVisitor(req, connections.addressOf(res), this.#proxies, isPrefetch);
        this.#visit(res, req, visitor, plan, nowMs);
        return;
      }
    }
    this.lookUp(res, req, connections, false);
  }

  /** All other GET and HEAD requests: those that may wait for a store, and those for other paths than links. */
  lookUp(res: HttpResponse, req: HttpRequest, connections: Connections, isHead: boolean): void {
    const accept = req.getHeader('accept');
    const manner = { isHead, wantsJson: wantsJson(accept), isLast: this.state.isStopping };
    const { isAmbiguous, isPrefetch } = headerFacts(req);
    if (isAmbiguous) {
      this.#answers.refuseForGood(res, 'bad_request', { ...manner, isLast: true });
      return;
    }
    const host = requestHostOf(hostHeaderOf(req));
    const path = req.getUrl();
    if (sendHostFile(res, path, manner)) {
      this.counters.answers.static++;
      return;
    }
    if (!isHost(host)) {
      this.#answers.refuse(res, 'not_found', manner);
      return;
    }
    const code = appPaths.has(path) ? '' : codeOfPath(path);
    const visitor = readVisitor(req, connections.addressOf(res), this.#proxies, isPrefetch);
    const asLongLink = (app: LinkedApp) => this.#answerLongLink(res, app, path, visitor, accept, manner);
    if (code === null) {
      this.#refuseOn(res, host, manner, asLongLink);
      return;
    }
    if (code === '') {
      this.#answers.wait(res, this.#cache.findApp(host), (app) => {
        if (app) {
          if (!asLongLink(app)) this.#answers.forApp(res, app, path, visitor.query, manner);
        } else this.#answers.refuse(res, app === null ? 'not_found' : 'unavailable', manner);
      });
      return;
    }
    this.#answers.wait(res, this.#cache.find(host, code), (found) => {
      if (found === undefined) this.#answers.refuse(res, 'unavailable', manner);
      else if (found === null)
        this.#refuseOn(res, host, manner, (app) => {
          if (asLongLink(app)) return true;
          const name = app.codes_ignore_case ? lowerCode(code) : code;
          if (app.migrates) this.#answerAsked(res, app, name, visitor, accept, isHead);
          else this.#countOrphan(app, name, visitor, isHead);
          return app.migrates;
        });
      else if (isHead) this.#answers.unrecorded(res, visitor, found.app, found.link, manner, 'head');
      else this.#visit(res, accept, visitor, new LinkPlan(found.app, found.link), this.#storeClock());
    });
  }

  /** A POST request that is not a visit: device signals of a tap page, or copies of Apple's postbacks. */
  receive(res: HttpResponse, req: HttpRequest, connections: Connections, receiver: Receiver): void {
    if (headerFacts(req).isAmbiguous) {
      this.#answers.refuseForGood(res, 'bad_request', { isHead: false, wantsJson: false, isLast: true });
      return;
    }
    const sender = {
      host: requestHostOf(hostHeaderOf(req)),
      ip: readVisitor(req, connections.addressOf(res), this.#proxies, false).ip,
    };
    receiver.receive(res, sender, () => this.state.isStopping);
  }

  /** Handles a password that a visitor enters; with the right one, the visitor visits the link. */
  unlock(res: HttpResponse, req: HttpRequest, connections: Connections): void {
    const accept = req.getHeader('accept');
    const manner = { isHead: false, wantsJson: wantsJson(accept), isLast: true };
    if (headerFacts(req).isAmbiguous) {
      this.#answers.refuseForGood(res, 'bad_request', manner);
      return;
    }
    const host = requestHostOf(hostHeaderOf(req));
    const sender = readVisitor(req, connections.addressOf(res), this.#proxies, false);
    this.#unlocks.read(res, (form) => {
      const code = form === null || !isHost(host) ? null : codeOfPath(form.path);
      if (form === null || code === null) {
        this.#answers.refuseForGood(res, form === null ? 'bad_request' : 'not_found', manner);
        return;
      }
      // The page that sent the form is not the visitor's referrer.
      const visitor = { ...sender, query: form.query, referrer: '' };
      this.#answers.wait(res, this.#tryPassword(host, code, visitor, form.password), ([found, outcome]) => {
        const isLast = this.state.isStopping;
        if (!found) this.#answers.refuse(res, found === null ? 'not_found' : 'unavailable', { ...manner, isLast });
        else if (outcome === 'open')
          this.#visit(res, accept, visitor, new LinkPlan(found.app, found.link), this.#storeClock(), true);
        else {
          this.counters.answers[outcome === 'wrong' ? 'wrong_password' : 'password_limited']++;
          const html = passwordPage(found.link.short_code, visitor.query, outcome);
          const status = outcome === 'wrong' ? '403 Forbidden' : '429 Too Many Requests';
          sendText(res, status, html, { ...manner, isLast }, pageHeaders(passwordPolicy));
        }
      });
    });
  }

  /** `open`: the password is right, or the link has none. */
  async #tryPassword(host: string, code: string, visitor: Visitor, password: string) {
    const found = await this.#cache.find(host, code);
    const hash = found?.link.password_hash ?? null;
    if (!found || hash === null) return [found, 'open'] as const;
    const outcome = await this.#unlocks.check(found.link.id, hash, visitor.ip, password);
    return [found, outcome === 'right' ? 'open' : outcome] as const;
  }

  refuseMethod(res: HttpResponse, req: HttpRequest): void {
    const manner = { isHead: false, wantsJson: wantsJson(req.getHeader('accept')), isLast: true };
    this.#answers.refuseForGood(res, 'method_not_allowed', manner);
  }

  #visit(
    res: HttpResponse,
    accept: string | HttpRequest,
    visitor: Visitor,
    plan: LinkPlan,
    nowMs: number,
    isUnlocked = false,
  ): void {
    const device = this.#devices.of(visitor.user_agent);
    const isUsedUp = plan.isLimited && this.#shares.isReached(plan.link);
    const decision = plan.decide(device, visitor, nowMs, this.#countries, isUnlocked, isUsedUp);
    if (plan.isLimited && decision.kind === 'redirect' && !isProgram(device, visitor.user_agent))
      this.#takeClick(res, accept, visitor, plan, device, decision);
    else this.#answer(res, accept, visitor, plan, device, decision);
  }

  /** Redirects a person's visit of a link with max_clicks only if a click is left. */
  #takeClick(
    res: HttpResponse,
    accept: string | HttpRequest,
    visitor: Visitor,
    plan: LinkPlan,
    device: VisitorDevice,
    decision: RedirectDecision,
  ): void {
    const accepted = acceptOf(accept);
    const answer = (outcome: ClickOutcome) =>
      this.#answer(res, accepted, visitor, plan, device, outcome === 'taken' ? decision : plan.usedUp());
    // A browser that prefetches sends the request again if its user follows the link.
    const taken = visitor.is_prefetch ? 'unavailable' : this.#shares.take(plan.link);
    if (taken === 'unavailable') this.#answers.refuse(res, taken, this.#pageManner(accepted));
    else if (typeof taken === 'string') answer(taken);
    else this.#answers.wait(res, taken, answer);
  }

  #pageManner(accept: string): ResponseOptions {
    return { isHead: false, wantsJson: wantsJson(accept), isLast: this.state.isStopping };
  }

  #answer(
    res: HttpResponse,
    accept: string | HttpRequest,
    visitor: Visitor,
    plan: LinkPlan,
    device: VisitorDevice,
    decision: RedirectDecision,
  ): void {
    if (decision.kind === 'not_found' || decision.kind === 'gone') {
      this.#answers.refuse(res, decision.kind, this.#pageManner(acceptOf(accept)), plan.app);
      return;
    }
    if (decision.kind === 'password') {
      const manner = { isHead: false, wantsJson: false, isLast: this.state.isStopping };
      this.#answers.askPassword(res, plan.link, visitor, manner);
      return;
    }
    const nowMs = this.#clock();
    const clickId = newId('clk', nowMs);
    const isPreview = decision.kind === 'preview';
    const query = isPreview ? '' : this.#hops.onward(decision.destination, visitor.query, this.#storeClock());
    if (query === null) {
      this.#answers.refuse(res, 'loop', this.#pageManner(acceptOf(accept)), plan.app);
      return;
    }
    const tap = isPreview ? null : decision.tap;
    const page = tap === null ? null : this.#tapPage(tap, plan.app, accept, { ...visitor, query }, device, clickId);
    let visit: Visit;
    if (tap !== null && page !== null) visit = Visit.begin(this.state, res, 'tap_page', page, tap.policy);
    else {
      const content = isPreview ? decision.html : redirectOf(decision.destination, query, clickId);
      visit = Visit.begin(this.state, res, decision.kind, content);
    }
    const recorded = recordedVisitor(visitor, plan.app, nowMs, this.#addresses, this.#queryFilter);
    const line = plan.record(clickId, recorded, device, isPreview, nowMs, isPreview ? '' : decision.ruleId);
    this.#journal.append(this.#lanes.at(nowMs), line, visit);
  }

  /** The page for a visitor in a browser; null for visitors who are redirected without a page. */
  #tapPage(
    tap: TapPage,
    { privacy_mode, probabilistic_window_hours: hours }: LinkedApp,
    accept: string | HttpRequest,
    { user_agent, language, query, is_prefetch }: Visitor,
    device: VisitorDevice,
    clickId: string,
  ): string | null {
    if (!opensTapPage(acceptOf(accept), is_prefetch, device, user_agent)) return null;
    // Signals are requested only if they can be used for matching.
    const token = privacy_mode === 'no_ip' || hours === 0 ? '' : this.#tokens.sign(clickId, hours);
    return tap.html({ clickId, query, user_agent, language, token, shortUrl: this.#shortUrl });
  }

  /** @returns false if the request is not a long link, or the app does not support long links. */
  #answerLongLink(
    res: HttpResponse,
    app: LinkedApp,
    path: string,
    given: Visitor,
    accept: string,
    { isHead, wantsJson }: ResponseOptions,
  ): boolean {
    const asked = longLinkVisit(this.#longLinks, app, path, given, () => !isHead && this.#isPerson(given));
    if (asked === null) return false;
    this.#answers.wait(res, asked, (visit) => {
      const manner = { isHead, wantsJson, isLast: this.state.isStopping };
      if (visit.kind === 'deleted') this.#answers.refuse(res, 'not_found', manner, app);
      else if (visit.kind === 'refused') {
        // Never redirects to a destination that only the visit's query names.
        this.#countOrphan(app, visit.name, visit.visitor, isHead);
        this.#answers.fallback(res, app, given.query, manner, 'long_link_refused');
      } else if (visit.kind === 'link' && !isHead)
        this.#visit(res, accept, visit.visitor, new LinkPlan(app, visit.link), this.#storeClock());
      else
        this.#answers.unrecorded(res, visit.visitor, app, visit.link, manner, isHead ? 'head' : 'long_link_unrecorded');
    });
    return true;
  }

  /** Answers a code that only the app's previous service may know. */
  #answerAsked(
    res: HttpResponse,
    app: LinkedApp,
    code: string,
    visitor: Visitor,
    accept: string,
    isHead: boolean,
  ): void {
    const isOwnQuestion = visitor.user_agent === askingAgent;
    const answer = (found: FoundLink | null | undefined) => {
      const manner = { ...this.#pageManner(accept), isHead };
      if (found) this.#visit(res, accept, visitor, new LinkPlan(found.app, found.link), this.#storeClock());
      else if (isOwnQuestion || found === undefined)
        this.#answers.refuse(res, isOwnQuestion ? 'not_found' : 'unavailable', manner, app);
      else {
        this.#countOrphan(app, code, visitor, isHead);
        this.#answers.fallback(res, app, visitor.query, manner, 'not_learned');
      }
    };
    const mayAsk = !isHead && !isOwnQuestion && this.#isPerson(visitor);
    const asked = this.#asked.find(app, code, mayAsk);
    if (asked instanceof Promise) this.#answers.wait(res, asked, answer);
    else answer(asked);
  }

  /**
   * Refuses a path that the host does not have, with the app's own page if there is one.
   * @param onApp returns whether it answered instead.
   */
  #refuseOn(res: HttpResponse, host: string, manner: ResponseOptions, onApp: (app: LinkedApp) => boolean): void {
    const known = this.#cache.apps.get(host, this.#storeClock());
    const refuse = (app: LinkedApp | null) => {
      if (app === null || !onApp(app)) this.#answers.refuse(res, 'not_found', manner, app);
    };
    if (known === undefined) this.#answers.wait(res, this.#cache.findApp(host), (loaded) => refuse(loaded ?? null));
    else refuse(known);
  }

  /**
   * Counts a person's visit of a code that the host does not have; prefetches, HEAD requests and bots are not counted.
   */
  #countOrphan(app: LinkedApp, name: string, visitor: Visitor, isHead: boolean): void {
    if (!isHead && this.#isPerson(visitor)) this.#orphans.count(app, name);
  }

  #isPerson({ user_agent, is_prefetch }: Visitor): boolean {
    return !is_prefetch && !isBot(this.#devices.of(user_agent), user_agent);
  }
}
