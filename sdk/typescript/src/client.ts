/**
 * The behaviour that all platforms share, as the vectors describe it. One piece of work at a time, in this order: the
 * first match, the install, events; a failure makes all of them wait. Links that open the app wait for none of them.
 */
import { Connection, isHopeless, type Outcome, retryAfterMs } from './connection.ts';
import { bytesOf, EventQueue } from './event-queue.ts';
import { EventSending } from './event-sending.ts';
import * as limits from './limits.ts';
import { LinkFeed } from './link-feed.ts';
import { type Evidence, evidenceOf, linkOf, longForm, pastedEvidence } from './links.ts';
import { ServerClock } from './server-clock.ts';
import { loadState, type State, saveState } from './state.ts';
import type {
  Consent,
  CreatedLink,
  Details,
  Dropped,
  Finding,
  Flushed,
  Link,
  NewLink,
  Options,
  Platform,
  Signpost,
} from './types.ts';

const nothing: Dropped = { full: 0, expired: 0, rejected: 0, consent: 0 };

export class Client implements Signpost {
  readonly #options: Options;
  readonly #platform: Platform;
  readonly #clock: ServerClock;
  readonly #connection: Connection;
  readonly #queue: EventQueue;
  readonly #sending: EventSending;
  readonly #feed = new LinkFeed(() => this.#taken());
  readonly #ready: Promise<void>;
  #state: State = {};
  #saved: Promise<unknown> = Promise.resolve();
  /** Changes with the consent; an answer to an earlier one is ignored. */
  #generation = 0;
  #work: Promise<unknown> | null = null;
  #isMatchDue = false;
  #areEventsDue = true;
  #isWaiting = false;
  #isBatchTimed = false;
  /** Openings that are being resolved; the first match waits for them. */
  #resolving = 0;
  #pendingTries = 0;

  constructor(options: Options, platform: Platform) {
    this.#options = options;
    this.#platform = platform;
    this.#clock = new ServerClock(platform.now);
    this.#connection = new Connection(platform, this.#clock, options);
    this.#queue = new EventQueue(platform.store, (reason, count) => this.#drop(reason, count));
    this.#sending = new EventSending(this.#queue, this.#connection, this.#clock, (count) =>
      this.#drop('rejected', count),
    );
    this.#ready = this.#load();
  }

  get links(): AsyncIterable<Link> {
    return this.#feed;
  }

  onLink(listener: (link: Link) => void): () => void {
    return this.#feed.listen(listener);
  }

  async open(url: string): Promise<Link | null> {
    return await this.#resolve(evidenceOf(url, this.#options.linkHosts));
  }

  async pasted(text: string): Promise<Link | null> {
    return await this.#resolve(pastedEvidence(text));
  }

  async firstLink(): Promise<Link | null> {
    await this.#ready;
    return this.#state.first_link ?? null;
  }

  async lastLink(): Promise<Link | null> {
    await this.#ready;
    return this.#state.last_link ?? null;
  }

  /** @param fields more fields of the event, as POST /sdk/events has them. */
  async track(name: string, { properties, revenue }: Details = {}, fields: object = {}): Promise<void> {
    const event_id = this.#platform.newId('evt');
    const timestamp = this.#clock.now();
    await this.#ready;
    if (this.#state.consent !== 'all') return this.#drop('consent', 1);
    const isBad = name === '' || name.length > limits.NAME_CHARS_MAX;
    if (isBad || bytesOf(JSON.stringify(properties ?? {})) > limits.PROPERTIES_BYTES_MAX)
      return this.#drop('rejected', 1);
    const { user_id, click } = this.#state;
    await this.#sending.add({ name, event_id, timestamp, properties, revenue, user_id, ...click, ...fields });
    if ((await this.#queue.keys()).length >= limits.BATCH_EVENTS_MAX) this.#eventsDue();
    else this.#batchLater();
  }

  async identify(userId: string): Promise<void> {
    await this.#ready;
    this.#state.user_id = userId;
    await this.#save();
  }

  async reset(): Promise<void> {
    await this.#ready;
    delete this.#state.user_id;
    await this.#save();
  }

  /** @throws if the server refuses the link, or can't be reached and there is no fallback link. */
  async createLink(link: NewLink): Promise<CreatedLink> {
    await this.#ready;
    const { fallbackLink } = this.#options;
    let problem = 'there is no consent';
    if (this.#state.consent !== 'none') {
      const { kind, reply, body } = await this.#connection.ask('/sdk/links', link, 'short_code');
      if (kind === 'ok') return { url: String(body['url']), isLong: false };
      const refusal = (body['error'] as { message?: string } | undefined)?.message;
      problem = refusal ?? `${this.#options.host} did not answer`;
      if (reply && reply.status < 500 && reply.status !== 429) throw new Error(`The link was not created: ${problem}`);
    }
    if (!fallbackLink) throw new Error(`The link was not created: ${problem}. Set fallbackLink for such cases.`);
    return longForm(fallbackLink, link);
  }

  async setConsent(consent: Consent): Promise<void> {
    await this.#ready;
    await this.#become(consent);
    void this.#run();
  }

  async flush(isLastChance = false): Promise<Flushed> {
    await this.#ready;
    this.#areEventsDue = true;
    if (this.#work && !isLastChance) await this.#work;
    await this.#run(isLastChance);
    return { queued: (await this.#queue.keys()).length, dropped: this.#state.dropped ?? nothing };
  }

  async check(): Promise<readonly Finding[]> {
    const { findings } = await import('./check.ts');
    return await findings(this.#options, this.#platform);
  }

  async #load(): Promise<void> {
    this.#state = await loadState(this.#platform.store);
    await this.#become(this.#options.consent ?? this.#state.consent ?? 'all');
    const { untaken } = this.#state;
    const age = this.#platform.now() - (untaken?.at ?? 0);
    if (untaken && age >= 0 && age < limits.UNTAKEN_LINK_MAX_MS) this.#feed.deliver(untaken.link);
    this.#matchLater(limits.FIRST_OPEN_WAIT_MS);
  }

  /** Everything that is kept is erased unless the consent is still complete. */
  async #become(consent: Consent): Promise<void> {
    if (consent === this.#state.consent) return;
    this.#generation++;
    if (consent !== 'all') {
      const { opened, dropped } = this.#state;
      this.#state = { consent, ...(opened ? { opened } : {}), ...(dropped ? { dropped } : {}) };
      const queued = await this.#queue.clear();
      if (queued > 0) await this.#drop('consent', queued);
    }
    this.#state.consent = consent;
    if (consent === 'all' && this.#platform.kind !== 'server') {
      this.#state.device_id ??= this.#platform.newId('dev');
      if (this.#platform.kind === 'device') this.#state.install_id ??= this.#platform.newId('ins');
    }
    await this.#save();
  }

  /** One after the other, so that the newest state stays. */
  #save(): Promise<void> {
    const saved = this.#saved.then(() => saveState(this.#platform.store, this.#state));
    this.#saved = saved.catch(() => undefined);
    return saved;
  }

  async #drop(reason: keyof Dropped, count: number): Promise<void> {
    const dropped = this.#state.dropped ?? nothing;
    this.#state.dropped = { ...dropped, [reason]: dropped[reason] + count };
    if (this.#state.consent === 'all') await this.#save();
  }

  #taken(): void {
    if (!this.#state.untaken) return;
    delete this.#state.untaken;
    void this.#save();
  }

  #matchLater(delayMs: number): void {
    this.#platform.timer(delayMs, () => {
      this.#isMatchDue = true;
      void this.#run();
    });
  }

  #batchLater(): void {
    if (this.#isBatchTimed) return;
    this.#isBatchTimed = true;
    this.#platform.timer(limits.BATCH_WAIT_MS, () => {
      this.#isBatchTimed = false;
      this.#eventsDue();
    });
  }

  #eventsDue(): void {
    this.#areEventsDue = true;
    void this.#run();
  }

  /** Works until there is nothing to do or a wait is due. @param isLastChance before the page may go: no lock is waited for. */
  async #run(isLastChance = false): Promise<void> {
    if (this.#work && !isLastChance) return;
    const work = async () => {
      while (!this.#isWaiting && (await this.#step()));
    };
    const running = (isLastChance ? work().then(() => true) : this.#platform.exclusively(work)).then(
      (isDone) => {
        // Another tab is sending.
        if (!isDone) this.#batchLater();
      },
      () => this.#wait(limits.BACKOFF_MAX_MS),
    );
    this.#work = running;
    await running;
    if (this.#work === running) this.#work = null;
  }

  #wait(delayMs: number): void {
    this.#isWaiting = true;
    this.#platform.timer(delayMs, () => {
      this.#isWaiting = false;
      void this.#run();
    });
  }

  /** @returns whether there may be more to do. */
  async #step(): Promise<boolean> {
    const { consent, opened, installed, device_id, install_id } = this.#state;
    if (consent === 'none') return false;
    if (this.#platform.kind === 'device') {
      if (!opened && this.#isMatchDue && this.#resolving === 0) return await this.#match();
      if (opened && !installed && consent === 'all') return await this.#install();
    }
    if (consent !== 'all' || !this.#areEventsDue) return false;
    const { platform } = await this.#platform.device();
    const generation = this.#generation;
    const isCurrent = () => generation === this.#generation;
    const waitMs = await this.#sending.send({ device_id, install_id, platform }, isCurrent, this.#platform.now);
    if (waitMs === null) this.#areEventsDue = false;
    else if (waitMs > 0) this.#wait(waitMs);
    return waitMs === 0;
  }

  /** The first match, without evidence in a URL. */
  async #match(): Promise<boolean> {
    const referrer = await this.#referrer();
    const outcome = await this.#ask('/sdk/match', referrer, 'match_type');
    if (outcome === null) return true;
    const waitMs = this.#connection.waitMs(outcome);
    if (waitMs > 0) this.#wait(waitMs);
    else if (isPending(outcome) && this.#pendingTries++ < limits.PENDING_CLICK_TRIES_MAX) {
      this.#isMatchDue = false;
      this.#matchLater(Number(outcome.body['retry_after_ms']));
    } else await this.#answered(outcome.body, referrer);
    return waitMs === 0;
  }

  async #install(): Promise<boolean> {
    const { match_id, user_id } = this.#state;
    const outcome = await this.#ask('/sdk/install', { match_id, user_id, ...(await this.#referrer()) }, 'install_id');
    if (outcome === null) return true;
    const waitMs = this.#connection.waitMs(outcome);
    if (waitMs > 0) this.#wait(waitMs);
    else {
      this.#state.installed = true;
      await this.#save();
    }
    return waitMs === 0;
  }

  async #referrer(): Promise<object> {
    const install_referrer = await this.#platform.referrer?.();
    return install_referrer ? { install_referrer } : {};
  }

  /** Null if the consent changed meanwhile. */
  async #ask(path: string, fields: object, proof: string, timeoutMs?: number) {
    const generation = this.#generation;
    const { device_id, install_id } = this.#state;
    const body = { ...(await this.#platform.device()), device_id, install_id, ...fields };
    const outcome = await this.#connection.ask(path, body, proof, timeoutMs);
    return generation === this.#generation ? outcome : null;
  }

  /** Tries within a few seconds: a link that is resolved later would lead the person away from something else. */
  async #resolve(evidence: Evidence | null): Promise<Link | null> {
    if (!evidence) return null;
    this.#resolving++;
    try {
      await this.#ready;
      for (let tries = 1; this.#state.consent !== 'none'; tries++) {
        const outcome = await this.#ask('/sdk/match', evidence, 'match_type', limits.OPEN_TIMEOUT_MS);
        if (outcome === null) return null;
        const isLast = tries === limits.OPEN_TRIES_MAX;
        if (outcome.kind === 'ok' && (isLast || !isPending(outcome)))
          return await this.#answered(outcome.body, evidence);
        if (isLast || isHopeless(outcome.reply) || retryAfterMs(outcome.reply) > 0) return null;
        const limit = limits.OPEN_BACKOFF_MIN_MS * 2 ** (tries - 1);
        const delayMs = Number(outcome.body['retry_after_ms']) || Math.round(this.#platform.random() * limit);
        await new Promise<void>((resolve) => this.#platform.timer(delayMs, resolve));
      }
      return null;
    } finally {
      this.#resolving--;
      void this.#run();
    }
  }

  /** Takes the answer of a match. */
  async #answered(body: Readonly<Record<string, unknown>>, evidence: Evidence): Promise<Link | null> {
    const state = this.#state;
    const isFirstOpen = !state.opened;
    if (isFirstOpen) {
      state.opened = true;
      if (body['match_id']) state.match_id = String(body['match_id']);
    }
    const isFirst = !state.first_link && (isFirstOpen || state.consent === 'all');
    const link = linkOf(body, evidence, isFirstOpen, isFirst);
    if (link) {
      state.first_link ??= link;
      state.last_link = link;
      if (link.isDeferred) state.untaken = { link, at: this.#platform.now() };
      const { id } = body['link'] as { id: string };
      if (this.#platform.kind === 'page') state.click = { link_id: id, click_id: String(body['click_id']) };
    }
    await this.#save();
    if (link) this.#feed.deliver(link);
    return link;
  }
}

/** The named click is not processed yet. */
function isPending({ body }: Outcome): boolean {
  return body['reason'] === 'click_pending';
}
