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
import type { Grant, Reported, ShareStore } from './share-store.ts';

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
  readonly counters = {
    taken: 0,
    reached: 0,
    not_noted: 0,
    grants: 0,
    refused_grants: 0,
    failed_grants: 0,
    given_up: 0,
    unknown: 0,
  };
  readonly #file: ShareFile;
  readonly #store: ShareStore;
  readonly #warn: (line: string) => void;
  readonly #asks = new TransientMap<string, Ask>();
  #waiting = 0;
  #restUntilMs = 0;
  /** Links with clicks left, by the tick of their last use. */
  readonly #open = new Map<string, number>();
  readonly #changed = new Set<string>();
  #tick = 0;
  #timer: NodeJS.Timeout | undefined;
  #reporting: Promise<void> | undefined;
  /** Whether this redirector holds shares, or may hold them. */
  #isHolding: boolean;
  /**
   * Whether Postgres accepted the last report. If not, the next one has all shares: Postgres may have been restored.
   * Meanwhile, returning a share would help no one.
   */
  #isReported = false;

  constructor(file: ShareFile, store: ShareStore, warn: (line: string) => void) {
    this.#file = file;
    this.#store = store;
    this.#warn = warn;
    this.#isHolding = file.shares.size > 0;
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
    const isReturned = [...this.#open.keys()].every((link) => this.#giveBack(link));
    // Without an answer, the shares stay in the file, where the next process with this name finds them.
    if (this.#isHolding) await within(this.#leave(isReturned), clickShareLimits.leaveMs).catch(() => undefined);
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
    this.#isHolding = true;
    if (!this.#isReported) await within(this.report(), clickShareLimits.askMs).catch(() => undefined);
    try {
      return this.#accept(link, max, await within(this.#store.take(link, waiting), clickShareLimits.askMs));
    } catch {
      this.counters.failed_grants++;
      this.#isReported = false;
      this.#restUntilMs = systemTime.elapsed() + clickShareLimits.unavailableMs;
      return 'unavailable';
    }
  }

  #accept(link: string, max: number, grant: Grant): AskOutcome {
    const { is_granted, granted, open_elsewhere } = grant;
    if (!is_granted) {
      this.counters.refused_grants++;
      return open_elsewhere > 0 ? 'held_elsewhere' : 'nothing_left';
    }
    const known = this.#file.shares.get(link);
    // A report has already found this grant and returned it, before the answer to the request arrived.
    if (known !== undefined && known.granted >= granted) return 'held_elsewhere';
    const returned = Math.max(grant.returned, known?.returned ?? 0);
    const share = this.#file.put(link, { granted, returned, used: known?.used ?? grant.used, max });
    if (share === null) return 'unavailable';
    this.counters.grants++;
    if (leftOf(share) <= 0) return 'held_elsewhere';
    this.#open.set(link, this.#tick);
    return 'granted';
  }

  /**
   * Returns a share: first in the file, so that it is no longer used, then in the next report. False if the file could
   * not be written. @param stored what Postgres knows, which may include a grant whose answer was lost.
   */
  #giveBack(link: string, stored = { granted: 0, used: 0 }): boolean {
    const known = this.#file.shares.get(link) ?? { granted: 0, returned: 0, used: stored.used, max: 0 };
    const share = { ...known, granted: Math.max(known.granted, stored.granted) };
    const returned = share.granted - share.used;
    if (leftOf(share) > 0 && this.#file.put(link, { ...share, returned }) === null) return false;
    this.#open.delete(link);
    this.#changed.add(link);
    return true;
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
    if (this.#tick % clickShareLimits.reportTicks === 0 && this.#isHolding) void this.report();
  }

  /** Reports used and returned clicks. Never rejects. */
  report(): Promise<void> {
    this.#reporting ??= this.#report().finally(() => {
      this.#reporting = undefined;
    });
    return this.#reporting;
  }

  async #report(leaves = false): Promise<void> {
    const { shares } = this.#file;
    const links = new Set(this.#isReported ? this.#changed : shares.keys());
    this.#changed.clear();
    try {
      const rows = await this.#store.report(links, leaves);
      this.#isReported = true;
      this.#onReported(rows);
    } catch {
      this.#isReported = false;
      return;
    }
    for (const link of links) {
      const share = shares.get(link);
      if (share !== undefined && leftOf(share) === 0 && !this.#changed.has(link)) this.#file.forget(link);
    }
  }

  #onReported(rows: readonly Reported[]): void {
    let unknown = 0;
    for (const { kind, name, granted, used } of rows) {
      if (kind === 'wanted') this.#giveBack(name, { granted, used });
      else this.counters[kind] += granted;
      if (kind === 'unknown') unknown += granted;
      if (kind === 'given_up')
        this.#warn(
          `the redirector ${name} does not report: ${granted} clicks of links with max_clicks that it held count as used, until it reports again`,
        );
    }
    if (unknown > 0)
      this.#warn(
        `Postgres was restored to an earlier state: it did not know ${unknown} clicks that were granted here, by which links may exceed their max_clicks`,
      );
  }

  async #leave(isReturned: boolean): Promise<void> {
    await this.#reporting;
    await this.#report(isReturned);
  }
}
