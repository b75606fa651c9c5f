/**
 * The short-link edge: resolve → platform → destination → record → answer.
 *
 * A visit of a cached link creates no promise: it is resolved inside the request handler, its click goes to the journal, and
 * the answer is sent once the journal has written it, at the end of the same event loop turn.
 */
import type { AddressWriter } from '#common/address-writer.ts';
import type { Clock } from '#common/clock.ts';
import { TrustedProxies } from '#common/http/peer.ts';
import type { HttpRequest, HttpResponse } from '#common/http/uws.ts';
import { newId } from '#common/ids.ts';
import type { Journal } from '#common/journal/journal.ts';
import type { LinkCache } from '#common/links/link-cache.ts';
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import type { QueryFilter } from '#common/links/query-filter.ts';
import { codeOfPath, lowerCode } from '#common/links/short-code.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import { pageHeaders, textHeaders } from '#common/redirect/answer-headers.ts';
import { androidAssociation, appleAssociation } from '#common/redirect/association.ts';
import type { Countries } from '#common/redirect/compiled-rules.ts';
import { redirectOf } from '#common/redirect/destination.ts';
import { Devices, isBot, type VisitorDevice } from '#common/redirect/device.ts';
import type { PageReason } from '#common/redirect/page.ts';
import { passwordPage, passwordPolicy } from '#common/redirect/password-page.ts';
import { LinkPlan, rootDestinationOf } from '#common/redirect/plan.ts';
import type { TapPage } from '#common/redirect/tap-page.ts';
import { opensTapPage } from '#common/redirect/visit-answer.ts';
import { type Visitor, wantsJson } from '#common/redirect/visitor.ts';
import { type ResponseOptions, sendPage, sendRedirect, sendRefusal, sendText } from './answer.ts';
import type { ClickLanes } from './click-lanes.ts';
import { Counters } from './counters.ts';
import { KnownLinks } from './known-links.ts';
import { LinkUnlocks } from './link-unlocks.ts';
import type { OrphanVisits } from './orphan-visits.ts';
import type { SignalBeacon } from './signal-beacon.ts';
import type { SignalTokens } from './signal-token.ts';
import { Visit, type VisitState } from './visit.ts';
import { isAmbiguous, isHost, readVisitor, requestHostOf } from './visitor.ts';

export interface EdgeOptions {
  readonly cache: LinkCache;
  readonly journal: Pick<Journal, 'append'>;
  readonly lanes: ClickLanes;
  readonly clock: Clock;
  readonly trustedProxies: readonly string[];
  readonly addresses: AddressWriter;
  readonly queryFilter: QueryFilter;
  readonly tokens: SignalTokens;
  readonly beacon: SignalBeacon;
  readonly shortUrl: ShortUrl;
  readonly countries: Countries;
  readonly orphans: Pick<OrphanVisits, 'count'>;
}

const robots = 'User-agent: *\nAllow: /\n';

/** Paths that an app's host answers besides its links. */
const appPaths = new Set([
  '/',
  '/.well-known/apple-app-site-association',
  '/apple-app-site-association',
  '/.well-known/assetlinks.json',
]);

export class Edge {
  readonly counters = new Counters();
  readonly state: VisitState;
  readonly #cache: LinkCache;
  readonly #journal: EdgeOptions['journal'];
  readonly #lanes: ClickLanes;
  readonly #clock: Clock;
  readonly #proxies: TrustedProxies | null;
  readonly #addresses: AddressWriter;
  readonly #queryFilter: QueryFilter;
  readonly #tokens: SignalTokens;
  readonly #beacon: SignalBeacon;
  readonly #shortUrl: ShortUrl;
  readonly #countries: Countries;
  readonly #orphans: Pick<OrphanVisits, 'count'>;
  readonly #devices = new Devices();
  readonly #known: KnownLinks;
  readonly #unlocks: LinkUnlocks;

  constructor(options: EdgeOptions) {
    const { cache, journal, lanes, clock, trustedProxies, addresses, queryFilter } = options;
    this.#cache = cache;
    this.#known = new KnownLinks(cache);
    this.#journal = journal;
    this.#lanes = lanes;
    this.#clock = clock;
    this.#proxies = trustedProxies.length === 0 ? null : new TrustedProxies(trustedProxies);
    this.#addresses = addresses;
    this.#queryFilter = queryFilter;
    this.#tokens = options.tokens;
    this.#beacon = options.beacon;
    this.#shortUrl = options.shortUrl;
    this.#countries = options.countries;
    this.#orphans = options.orphans;
    this.#unlocks = new LinkUnlocks(clock);
    this.state = { counters: this.counters, waiting: 0, isStopping: false };
  }

  /** The hot path: visits of cached links. Everything else continues in `lookUp`. */
  get(res: HttpResponse, req: HttpRequest): void {
    const nowMs = this.#clock();
    const plan = this.#known.find(req.getHeader('host'), req.getUrl(), nowMs);
    if (plan !== undefined && req.getHeader('content-length') === '') {
      this.#visit(res, req, readVisitor(req, res, this.#proxies), plan, nowMs);
      return;
    }
    this.lookUp(res, req, false);
  }

  /** Every other GET and HEAD: requests that may wait for a store, and those that are not links. */
  lookUp(res: HttpResponse, req: HttpRequest, isHead: boolean): void {
    const accept = req.getHeader('accept');
    const manner = { isHead, wantsJson: wantsJson(accept), isLast: this.state.isStopping };
    if (req.getHeader('content-length') !== '' && isAmbiguous(req)) {
      this.#refuseForGood(res, 'bad_request', { ...manner, isLast: true });
      return;
    }
    const host = requestHostOf(req.getHeader('host'));
    const path = req.getUrl();
    if (path === '/robots.txt' || path === '/favicon.ico') {
      this.counters.answers.static++;
      if (path === '/robots.txt') {
        const headers = textHeaders('text/plain', { 'Cache-Control': 'public, max-age=86400' });
        sendText(res, '200 OK', robots, manner, headers);
      } else {
        res.writeStatus('204 No Content').writeHeader('Cache-Control', 'public, max-age=86400');
        res.writeHeader('X-Content-Type-Options', 'nosniff');
        res.endWithoutBody(0, manner.isLast);
      }
      return;
    }
    if (!isHost(host)) {
      this.#refuse(res, 'not_found', manner);
      return;
    }
    const code = appPaths.has(path) ? '' : codeOfPath(path);
    if (code === null) {
      this.#refuseOn(res, host, manner);
      return;
    }
    const visitor = readVisitor(req, res, this.#proxies);
    if (code === '') {
      this.#wait(res, this.#loadApp(host), (app) => {
        if (app) this.#answerForApp(res, app, path, visitor.query, manner);
        else this.#refuse(res, app === null ? 'not_found' : 'unavailable', manner);
      });
      return;
    }
    this.#wait(res, this.#cache.find(host, code), (found) => {
      if (found === undefined) this.#refuse(res, 'unavailable', manner);
      else if (found === null)
        this.#refuseOn(res, host, manner, (app) => this.#countOrphan(app, code, visitor, isHead));
      else if (isHead) this.#answerHead(res, visitor, found.app, found.link, manner);
      else this.#visit(res, accept, visitor, new LinkPlan(found.app, found.link), this.#clock());
    });
  }

  /** The device signals that a tap page sends. */
  receiveSignals(res: HttpResponse, req: HttpRequest): void {
    if (isAmbiguous(req)) {
      this.#refuseForGood(res, 'bad_request', { isHead: false, wantsJson: false, isLast: true });
      return;
    }
    this.#beacon.receive(res, readVisitor(req, res, this.#proxies).ip, () => this.state.isStopping);
  }

  /** The password that a visitor enters: a right one is a visit of the link. */
  unlock(res: HttpResponse, req: HttpRequest): void {
    const manner = { isHead: false, wantsJson: wantsJson(req.getHeader('accept')), isLast: true };
    if (isAmbiguous(req)) {
      this.#refuseForGood(res, 'bad_request', manner);
      return;
    }
    const host = requestHostOf(req.getHeader('host'));
    const accept = req.getHeader('accept');
    const sender = readVisitor(req, res, this.#proxies);
    this.#unlocks.read(res, (form) => {
      const code = form === null || !isHost(host) ? null : codeOfPath(form.path);
      if (form === null || code === null) {
        this.#refuseForGood(res, form === null ? 'bad_request' : 'not_found', manner);
        return;
      }
      // The page that sent the form is not where the visitor came from.
      const visitor = { ...sender, query: form.query, referrer: '', is_prefetch: false };
      this.#wait(res, this.#tryPassword(host, code, visitor, form.password), ([found, outcome]) => {
        const isLast = this.state.isStopping;
        if (!found) this.#refuse(res, found === null ? 'not_found' : 'unavailable', { ...manner, isLast });
        else if (outcome === 'open')
          this.#visit(res, accept, visitor, new LinkPlan(found.app, found.link), this.#clock(), true);
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
    this.#refuseForGood(res, 'method_not_allowed', {
      isHead: false,
      wantsJson: wantsJson(req.getHeader('accept')),
      isLast: true,
    });
  }

  /**
   * What follows may be a body that was never meant to be read as a request, so the connection ends here. Answering in
   * a later turn makes uWebSockets.js close the connection instead of reading further requests from the same bytes.
   */
  #refuseForGood(res: HttpResponse, reason: PageReason, manner: ResponseOptions): void {
    const laterTurn = new Promise<void>((settle) => setImmediate(settle));
    this.#wait(res, laterTurn, () => this.#refuse(res, reason, manner));
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
    const decision = plan.decide(device, visitor, nowMs, this.#countries, isUnlocked);
    if (decision.kind === 'not_found' || decision.kind === 'gone') {
      const accepted = typeof accept === 'string' ? accept : accept.getHeader('accept');
      const isLast = this.state.isStopping;
      this.#refuse(res, decision.kind, { isHead: false, wantsJson: wantsJson(accepted), isLast }, plan.app);
      return;
    }
    if (decision.kind === 'password') {
      this.#askPassword(res, plan.link, visitor, { isHead: false, wantsJson: false, isLast: this.state.isStopping });
      return;
    }
    const clickId = newId('clk', nowMs);
    const isPreview = decision.kind === 'preview';
    const tap = isPreview ? null : decision.tap;
    const page = tap === null ? null : this.#tapPage(tap, plan.app, accept, visitor, device, clickId);
    let visit: Visit;
    if (tap !== null && page !== null) visit = Visit.begin(this.state, res, 'tap_page', page, tap.policy);
    else {
      const content = isPreview ? decision.html : redirectOf(decision.destination, visitor.query, clickId);
      visit = Visit.begin(this.state, res, decision.kind, content);
    }
    const recorded = this.#recorded(visitor, plan.app, nowMs);
    this.#journal.append(this.#lanes.at(nowMs), plan.record(clickId, recorded, device, isPreview, nowMs), visit);
  }

  /** The page for a visitor in a browser; null for visitors who are redirected without one. */
  #tapPage(
    tap: TapPage,
    { privacy_mode, probabilistic_window_hours: hours }: LinkedApp,
    accept: string | HttpRequest,
    { user_agent, language, query, is_prefetch }: Visitor,
    device: VisitorDevice,
    clickId: string,
  ): string | null {
    const accepted = typeof accept === 'string' ? accept : accept.getHeader('accept');
    if (!opensTapPage(accepted, is_prefetch, device, user_agent)) return null;
    // Signals that match nothing are not requested.
    const token = privacy_mode === 'no_ip' || hours === 0 ? '' : this.#tokens.sign(clickId, hours);
    return tap.html({ clickId, query, user_agent, language, token, shortUrl: this.#shortUrl });
  }

  /** The visitor without what the app, or the operator, does not want recorded. */
  #recorded(visitor: Visitor, { privacy_mode }: LinkedApp, nowMs: number): Visitor {
    const { ip, user_agent, language, referrer, query, is_prefetch } = visitor;
    return {
      ip: privacy_mode === 'full_ip' ? ip : this.#addresses.ofClick(ip, privacy_mode, nowMs),
      user_agent,
      language,
      referrer,
      query: query === '' ? '' : this.#queryFilter.recorded(query),
      is_prefetch,
    };
  }

  #answerHead(res: HttpResponse, visitor: Visitor, app: LinkedApp, link: LinkSnapshot, manner: ResponseOptions): void {
    const device = this.#devices.of(visitor.user_agent);
    const decision = new LinkPlan(app, link).decide(device, visitor, this.#clock(), this.#countries);
    switch (decision.kind) {
      case 'not_found':
      case 'gone':
        this.#refuse(res, decision.kind, manner, app);
        return;
      case 'password':
        this.#askPassword(res, link, visitor, manner);
        return;
      case 'preview':
        this.counters.answers.head++;
        sendPage(res, decision.html, manner);
        return;
      case 'redirect':
      case 'expired':
        this.counters.answers.head++;
        sendRedirect(res, redirectOf(decision.destination, visitor.query, ''), manner.isLast);
    }
  }

  /** Asking is no click: that is the visit with the password. */
  #askPassword(res: HttpResponse, link: LinkSnapshot, { query }: Visitor, manner: ResponseOptions): void {
    this.counters.answers.password++;
    sendPage(res, passwordPage(link.short_code, query, 'asked'), manner, passwordPolicy);
  }

  async #loadApp(host: string): Promise<LinkedApp | null | undefined> {
    const known = this.#cache.apps.get(host, this.#clock());
    return known === undefined ? await this.#cache.apps.load(host) : known;
  }

  #answerForApp(res: HttpResponse, app: LinkedApp, path: string, query: string, manner: ResponseOptions): void {
    if (path === '/') {
      const destination = rootDestinationOf(app);
      if (destination === null) {
        this.#refuse(res, 'not_found', manner, app);
        return;
      }
      this.counters.answers.root++;
      sendRedirect(res, redirectOf(destination, query, ''), manner.isLast);
      return;
    }
    const json = path.endsWith('assetlinks.json') ? androidAssociation(app) : appleAssociation(app);
    if (json === null) {
      this.#refuse(res, 'not_found', manner);
      return;
    }
    this.counters.answers.association++;
    const headers = textHeaders('application/json', { 'Cache-Control': 'public, max-age=60' });
    sendText(res, '200 OK', json, manner, headers);
  }

  #refuse(res: HttpResponse, reason: PageReason, manner: ResponseOptions, app: LinkedApp | null = null): void {
    this.counters.answers[reason]++;
    sendRefusal(res, reason, manner, app);
  }

  /** A host's answer to what it does not have: with the page of its app, if that has one. */
  #refuseOn(res: HttpResponse, host: string, manner: ResponseOptions, onApp?: (app: LinkedApp) => void): void {
    const known = this.#cache.apps.get(host, this.#clock());
    const refuse = (app: LinkedApp | null) => {
      if (app !== null) onApp?.(app);
      this.#refuse(res, 'not_found', manner, app);
    };
    if (known === undefined) this.#wait(res, this.#loadApp(host), (loaded) => refuse(loaded ?? null));
    else refuse(known);
  }

  /** A visit of a code that the host does not have. Prefetches, HEAD requests and bots are not visits of people. */
  #countOrphan(app: LinkedApp, code: string, { user_agent, is_prefetch }: Visitor, isHead: boolean): void {
    if (isHead || is_prefetch || isBot(this.#devices.of(user_agent), user_agent)) return;
    this.#orphans.count(app, app.codes_ignore_case ? lowerCode(code) : code);
  }

  /**
   * Answers once the look-up has, unless the visitor is gone by then. Look-ups end in bounded time and never reject.
   */
  #wait<Found>(res: HttpResponse, lookup: Promise<Found>, answer: (found: Found) => void): void {
    let isAborted = false;
    this.state.waiting++;
    res.onAborted(() => {
      isAborted = true;
    });
    void lookup.then((found) => {
      this.state.waiting--;
      if (isAborted) this.counters.aborted++;
      else res.cork(() => answer(found));
    });
  }
}
