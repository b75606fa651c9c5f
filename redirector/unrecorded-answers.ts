/** Answers of the edge that record no click: pages and files of the host, rejections, HEAD requests. */
import type { Clock } from '#common/clock.ts';
import type { HttpResponse } from '#common/http/uws.ts';
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import type { Countries } from '#common/redirect/compiled-rules.ts';
import { type Destination, redirectOf } from '#common/redirect/destination.ts';
import type { Devices } from '#common/redirect/device.ts';
import type { PageReason } from '#common/redirect/page.ts';
import { passwordPage, passwordPolicy } from '#common/redirect/password-page.ts';
import { LinkPlan, rootDestinationOf } from '#common/redirect/plan.ts';
import type { Visitor } from '#common/redirect/visitor.ts';
import { type ResponseOptions, sendPage, sendRedirect, sendRefusal } from './answer.ts';
import type { ClickShares } from './click-shares.ts';
import { type AnswerKind, Counters } from './counters.ts';
import { type Hops, onlyHops } from './hops.ts';
import { sendAssociation } from './host-files.ts';
import type { VisitState } from './visit.ts';

export class UnrecordedAnswers {
  readonly counters = new Counters();
  readonly state: VisitState = { counters: this.counters, waiting: 0, isStopping: false };
  readonly #devices: Devices;
  readonly #clock: Clock;
  readonly #countries: Countries;
  readonly #shares: Pick<ClickShares, 'isReached'>;
  readonly #hops: Hops;

  constructor(
    devices: Devices,
    clock: Clock,
    countries: Countries,
    shares: Pick<ClickShares, 'isReached'>,
    hops: Hops,
  ) {
    this.#hops = hops;
    this.#devices = devices;
    this.#clock = clock;
    this.#countries = countries;
    this.#shares = shares;
  }

  refuse(res: HttpResponse, reason: PageReason, manner: ResponseOptions, app: LinkedApp | null = null): void {
    this.counters.answers[reason]++;
    sendRefusal(res, reason, manner, app);
  }

  /**
   * The following bytes may be a body that must not be read as a request, so the connection ends here. Answering in a
   * later turn makes uWebSockets.js close the connection instead of reading further requests from the same bytes.
   */
  refuseForGood(res: HttpResponse, reason: PageReason, manner: ResponseOptions): void {
    const laterTurn = new Promise<void>((settle) => setImmediate(settle));
    this.wait(res, laterTurn, () => this.refuse(res, reason, manner));
  }

  forApp(res: HttpResponse, app: LinkedApp, path: string, query: string, manner: ResponseOptions): void {
    if (path === '/') {
      const destination = rootDestinationOf(app);
      if (destination === null) {
        this.refuse(res, 'not_found', manner, app);
        return;
      }
      this.#redirect(res, destination, query, manner, 'root', app);
      return;
    }
    if (sendAssociation(res, app, path, manner)) this.counters.answers.association++;
    else this.refuse(res, 'not_found', manner);
  }

  /**
   * Redirects to the destination of the bare host, without any data of the visit; 404 if there is none.
   * @param as the kind to count.
   */
  fallback(res: HttpResponse, app: LinkedApp, query: string, manner: ResponseOptions, as: AnswerKind): void {
    const destination = rootDestinationOf(app);
    if (destination === null) {
      this.refuse(res, 'not_found', manner, app);
      return;
    }
    this.#redirect(res, destination, onlyHops(query), manner, as, app);
  }

  #redirect(
    res: HttpResponse,
    destination: Destination,
    query: string,
    manner: ResponseOptions,
    as: AnswerKind,
    app: LinkedApp,
  ): void {
    const onward = this.#hops.onward(destination, query, this.#clock());
    if (onward === null) {
      this.refuse(res, 'loop', manner, app);
      return;
    }
    this.counters.answers[as]++;
    sendRedirect(res, redirectOf(destination, onward, ''), manner.isLast);
  }

  /** Answers without a click. @param as the kind to count. */
  unrecorded(
    res: HttpResponse,
    visitor: Visitor,
    app: LinkedApp,
    link: LinkSnapshot,
    manner: ResponseOptions,
    as: AnswerKind,
  ): void {
    const device = this.#devices.of(visitor.user_agent);
    const plan = new LinkPlan(app, link);
    const isUsedUp = plan.isLimited && this.#shares.isReached(link);
    const decision = plan.decide(device, visitor, this.#clock(), this.#countries, false, isUsedUp);
    switch (decision.kind) {
      case 'not_found':
      case 'gone':
        this.refuse(res, decision.kind, manner, app);
        return;
      case 'password':
        this.askPassword(res, link, visitor, manner);
        return;
      case 'preview':
        this.counters.answers[as]++;
        sendPage(res, decision.html, manner);
        return;
      case 'redirect':
      case 'expired':
        this.#redirect(res, decision.destination, visitor.query, manner, as, app);
    }
  }

  /** Asking for the password is not a click; the visit with the password is. */
  askPassword(res: HttpResponse, link: LinkSnapshot, { query }: Visitor, manner: ResponseOptions): void {
    this.counters.answers.password++;
    sendPage(res, passwordPage(link.short_code, query, 'asked'), manner, passwordPolicy);
  }

  /**
   * Answers once the lookup has finished, unless the visitor has disconnected. Lookups end in bounded time and never
   * reject.
   */
  wait<Found>(res: HttpResponse, lookup: Promise<Found>, answer: (found: Found) => void): void {
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
