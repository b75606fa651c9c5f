/**
 * The clicks of limited links that this redirector may use. It takes shares of the remaining clicks from Postgres, and
 * records each click in its file before the visitor is redirected. It may use the clicks that it holds while every
 * store is unavailable; beyond them it answers as if the limit were reached.
 *
 *   left > 0 ──use──▶ taken
 *   left = 0 ──ask──▶ granted ──▶ left > 0
 *                └──▶ nothing, or no answer ──▶ reached, without asking again for a while
 *
 * A share is returned if another redirector has nothing left, if it was idle for a long time, or if the limit of the
 * link has changed since it was granted.
 */
import { SECOND_MS } from '#common/durations.ts';
import type { LinkSnapshot } from '#common/links/link-snapshot.ts';
import { within } from '#common/links/snapshot-source.ts';
import { sleep, systemTime } from '#common/time.ts';
import { TransientMap } from '#common/transient-map.ts';
import { leftOf, type Share, type ShareFile } from './share-file.ts';
import type { Grant, ShareStore } from './share-store.ts';

export const clickShareLimits = {
  shareMax: 200,
  /** Minimum interval between two requests for one link. */
  askIntervalMs: 50,
  askMs: 2 * SECOND_MS,
  /** How long a visitor waits for a share … */
  waitMs: 3 * SECOND_MS,
  /** … and how many visitors may wait. */
  waitingMax: 5_000,
  /**
   * Pause before the next request for a link after nothing was left: if other redirectors hold clicks, and if none do.
   */
  heldElsewhereMs: SECOND_MS,
  nothingLeftMs: 30 * SECOND_MS,
  /** The same for all links, after Postgres did not answer. */
  unavailableMs: SECOND_MS,
  /** Maximum links that are known to have ended. */
  endedMax: 10_000,
  /** Idle seconds after which a share is returned, if no other redirector asks for it earlier. */
  idleTicks: 600,
  reportTicks: 2,
  settleMs: 10 * SECOND_MS,
  leaveMs: 2 * SECOND_MS,
} as const;

export type ClickOutcome = 'taken' | 'reached';
type LimitedLink = Pick<LinkSnapshot, 'id' | 'max_clicks'>;

interface Waiting {
  readonly sinceMs: number;
  readonly settle: (outcome: ClickOutcome) => void;
}

/** State of a link without a share. */
interface Ask {
  readonly link: string;
  readonly max: number;
  waiting: Waiting[];
  isRunning: boolean;
  askedMs: number;
  /** No request is sent before this time. */
  restUntilMs: number;
  /** Whether nothing is left and no other redirector holds any clicks. */
  hasEnded: boolean;
}

/** Result of a request; all but `granted` are followed by a pause. */
type AskOutcome = 'granted' | 'held_elsewhere' | 'nothing_left' | 'unavailable';

const restMs: Readonly<Record<AskOutcome, number>> = {
  granted: 0,
  held_elsewhere: clickShareLimits.heldElsewhereMs,
  nothing_left: clickShareLimits.nothingLeftMs,
  unavailable: clickShareLimits.unavailableMs,
};

export class ClickShares {
  readonly counters = { taken: 0, reached: 0, not_noted: 0, grants: 0, refused_grants: 0, failed_grants: 0 };
  readonly #file: ShareFile;
  readonly #store: ShareStore;
  readonly #asks = new TransientMap<string, Ask>();
  #waiting = 0;
  #restUntilMs = 0;
  /** Links with clicks left, by the tick of their last use. */
  readonly #open = new Map<string, number>();
  readonly #changed = new Set<string>();
  #tick = 0;
  #timer: NodeJS.Timeout | undefined;
  #reporting: Promise<void> | undefined;
  /** Whether Postgres accepted the last report. While it is unavailable, returning a share would help no one. */
  #isReported = false;

  constructor(file: ShareFile, store: ShareStore) {
    this.#file = file;
    this.#store = store;
    for (const [link, share] of file.shares) if (leftOf(share) > 0) this.#open.set(link, 0);
  }

  /** Number of links of which this redirector holds clicks. */
  get openShares(): number {
    return this.#open.size;
  }

  start(): void {
    this.#timer = setInterval(() => this.#onTick(), SECOND_MS).unref();
  }

  /** Returns all shares, if Postgres is available. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    for (const link of this.#open.keys()) this.#giveBack(link);
    try {
      if (this.#hasToReport) await within(this.#leave(), clickShareLimits.leaveMs);
    } catch {
      // The shares stay in the file, where the next process with this name finds them.
    }
    this.#file.close();
  }

  /** Takes one click for a person. A visitor may be redirected only if the click is taken. */
  take(link: LimitedLink): ClickOutcome | Promise<ClickOutcome> {
    const share = this.#file.shares.get(link.id);
    if (share !== undefined && share.max === link.max_clicks && leftOf(share) > 0) return this.#use(link.id, share);
    return this.#isResting(link) ? this.#outcome('reached') : this.#wait(link);
  }

  /**
   * Whether the link has ended, as far as is known. While the link is visited, this is checked again from time to time.
   */
  isReached({ id, max_clicks }: LimitedLink): boolean {
    const ask = this.#asks.get(id);
    if (ask === undefined || !ask.hasEnded || ask.max !== max_clicks) return false;
    if (!ask.isRunning && systemTime.elapsed() >= ask.restUntilMs) void this.#ask(id, ask);
    return true;
  }

  #isResting({ id, max_clicks }: LimitedLink): boolean {
    const nowMs = systemTime.elapsed();
    const ask = this.#asks.get(id);
    return (ask !== undefined && ask.max === max_clicks && nowMs < ask.restUntilMs) || nowMs < this.#restUntilMs;
  }

  #use(link: string, share: Share): ClickOutcome {
    if (!this.#file.use(link)) {
      this.counters.not_noted++;
      return this.#outcome('reached');
    }
    share.used++;
    this.#changed.add(link);
    if (leftOf(share) > 0) this.#open.set(link, this.#tick);
    else this.#open.delete(link);
    return this.#outcome('taken');
  }

  #outcome(outcome: ClickOutcome): ClickOutcome {
    this.counters[outcome]++;
    return outcome;
  }

  #wait({ id, max_clicks: max }: LimitedLink): ClickOutcome | Promise<ClickOutcome> {
    if (max === null || this.#waiting >= clickShareLimits.waitingMax) return this.#outcome('reached');
    let ask = this.#asks.get(id);
    if (ask === undefined || (ask.max !== max && !ask.isRunning)) {
      ask = { link: id, max, waiting: [], isRunning: false, askedMs: 0, restUntilMs: 0, hasEnded: false };
      this.#asks.set(id, ask);
    }
    const { waiting } = ask;
    this.#waiting++;
    const promise = new Promise<ClickOutcome>((settle) => waiting.push({ sinceMs: systemTime.elapsed(), settle }));
    if (!ask.isRunning) void this.#ask(id, ask);
    return promise;
  }

  /** Sends requests until no visitor waits. */
  async #ask(link: string, ask: Ask): Promise<void> {
    ask.isRunning = true;
    do {
      const pauseMs = ask.askedMs + clickShareLimits.askIntervalMs - systemTime.elapsed();
      if (pauseMs > 0) await sleep(systemTime, pauseMs);
      ask.askedMs = systemTime.elapsed();
      const outcome = await this.#askOnce(link, ask.max, ask.waiting.length);
      if (outcome !== 'unavailable') ask.hasEnded = outcome === 'nothing_left';
      ask.restUntilMs = systemTime.elapsed() + restMs[outcome];
      this.#serve(link, ask, outcome === 'granted');
    } while (ask.waiting.length > 0);
    ask.isRunning = false;
  }

  /**
   * Serves visitors in order of arrival. The others keep waiting, unless nothing was granted or they have waited too
   * long.
   */
  #serve(link: string, ask: Ask, isGranted: boolean): void {
    const nowMs = systemTime.elapsed();
    const share = this.#file.shares.get(link);
    ask.waiting = ask.waiting.filter(({ sinceMs, settle }) => {
      if (share !== undefined && share.max === ask.max && leftOf(share) > 0) settle(this.#use(link, share));
      else if (!isGranted || nowMs - sinceMs >= clickShareLimits.waitMs) settle(this.#outcome('reached'));
      else return true;
      this.#waiting--;
      return false;
    });
  }

  async #askOnce(link: string, max: number, waiting: number): Promise<AskOutcome> {
    if (systemTime.elapsed() < this.#restUntilMs || !this.#file.ensure()) return 'unavailable';
    const share = this.#file.shares.get(link);
    if (share !== undefined && share.max !== max && !this.#giveBack(link)) return 'unavailable';
    try {
      return this.#accept(link, max, await within(this.#store.take(link, waiting), clickShareLimits.askMs));
    } catch {
      this.counters.failed_grants++;
      this.#store.lackGrants();
      this.#restUntilMs = systemTime.elapsed() + clickShareLimits.unavailableMs;
      return 'unavailable';
    }
  }

  #accept(link: string, max: number, grant: Grant): AskOutcome {
    const { outcome, granted, returned, open_elsewhere } = grant;
    if (outcome !== 'granted') {
      this.counters.refused_grants++;
      if (outcome === 'none') return open_elsewhere > 0 ? 'held_elsewhere' : 'nothing_left';
      return 'unavailable';
    }
    const known = this.#file.shares.get(link) ?? { granted: 0, returned: 0, used: 0 };
    // A report has already found this grant and returned it, before the answer to the request arrived.
    if (known.granted >= granted) return 'held_elsewhere';
    const { used } = known;
    const share = this.#file.put(link, { granted, returned: Math.max(returned, known.returned), used, max });
    if (share === null) {
      this.#store.lackGrants();
      return 'unavailable';
    }
    this.counters.grants++;
    if (leftOf(share) <= 0) return 'held_elsewhere';
    this.#open.set(link, this.#tick);
    return 'granted';
  }

  /**
   * Returns a share: first in the file, so that it is no longer used, then in the next report. False if the file could
   * not be written.
   */
  #giveBack(link: string): boolean {
    const share = this.#file.shares.get(link);
    if (share === undefined) return true;
    const { granted, used, max } = share;
    if (leftOf(share) > 0 && this.#file.put(link, { granted, returned: granted - used, used, max }) === null)
      return false;
    this.#open.delete(link);
    this.#changed.add(link);
    return true;
  }

  get #hasToReport(): boolean {
    return this.#store.isReporting || this.#changed.size > 0;
  }

  #onTick(): void {
    this.#tick++;
    for (const [link, tick] of this.#open)
      if (this.#isReported && this.#tick - tick >= clickShareLimits.idleTicks) this.#giveBack(link);
    const nowMs = systemTime.elapsed();
    for (const ask of this.#asks.values()) {
      const isKept = ask.hasEnded && this.#asks.size <= clickShareLimits.endedMax;
      if (!ask.isRunning && !isKept && nowMs >= ask.restUntilMs) this.#asks.delete(ask.link);
    }
    if (this.#tick % clickShareLimits.reportTicks === 0 && this.#hasToReport) void this.report();
  }

  /** Reports used and returned clicks. Never rejects. */
  report(): Promise<void> {
    this.#reporting ??= this.#report().finally(() => {
      this.#reporting = undefined;
    });
    return this.#reporting;
  }

  async #report(): Promise<void> {
    const changed = new Set(this.#changed);
    this.#changed.clear();
    try {
      const { wanted, open } = await this.#store.report(changed);
      this.#isReported = true;
      for (const link of wanted) this.#giveBack(link);
      for (const { link_id, granted } of open) this.#refuseUnknown(link_id, granted);
    } catch {
      this.#isReported = false;
      for (const link of changed) this.#changed.add(link);
    }
  }

  /** Returns a grant whose answer was lost. */
  #refuseUnknown(link: string, granted: number): void {
    const share = this.#file.shares.get(link) ?? { granted: 0, returned: 0, used: 0, max: 0, day: 0 };
    if (granted <= share.granted) return;
    const returned = granted - share.used - leftOf(share);
    if (this.#file.put(link, { ...share, granted, returned }) === null) this.#store.lackGrants();
    else this.#changed.add(link);
  }

  async #leave(): Promise<void> {
    await this.report();
    if (this.#changed.size > 0) await this.report();
    if (this.#changed.size === 0) await this.#store.leave();
  }
}
