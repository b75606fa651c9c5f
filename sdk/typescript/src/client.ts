/**
 * The behaviour that all platforms share, as the vectors describe it. One piece of work at a time: the first match, the
 * install, events; a failure makes all of them wait. Links that open the app wait for none of them.
 */
import { Connection } from './connection.ts';
import { bytesOf, EventQueue } from './event-queue.ts';
import { EventSending } from './event-sending.ts';
import type { State } from './kept-state.ts';
import * as limits from './limits.ts';
import { LinkFeed } from './link-feed.ts';
import type { ClientHost, FirstOpen, Outcome, Platform } from './platform.ts';
import { ServerClock } from './server-clock.ts';
import { loadState, saveState } from './state.ts';
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
  Signpost,
} from './types.ts';

const nothing: Dropped = { full: 0, expired: 0, rejected: 0, consent: 0 };

export class Client implements Signpost {
  readonly #platform: Platform;
  readonly #clock: ServerClock;
  readonly #connection: Connection;
  readonly #queue: EventQueue;
  readonly #sending: EventSending;
  readonly #host: ClientHost;
  readonly #firstOpen: FirstOpen | undefined;
  readonly #feed = new LinkFeed(() => this.#taken());
  readonly #ready: Promise<void>;
  #state: State = {};
  #saved: Promise<unknown> = Promise.resolve();
  /** Changes with the consent; an answer to an earlier one is ignored. */
  #generation = 0;
  #work: Promise<unknown> | null = null;
  #areEventsDue = true;
  #isWaiting = false;
  #isBatchTimed = false;
  /** Openings that are being resolved. */
  #resolving = 0;

  constructor(options: Options, platform: Platform) {
    this.#platform = platform;
    this.#clock = new ServerClock(platform.now);
    this.#connection = new Connection(platform, this.#clock, options);
    const drop = (reason: keyof Dropped, count: number) => this.#drop(reason, count);
    this.#queue = new EventQueue(platform.store, drop);
    this.#sending = new EventSending(this.#queue, this.#connection, this.#clock, drop);
    this.#host = {
      options,
      platform,
      connection: this.#connection,
      state: () => this.#state,
      ask: (...request) => this.#ask(...request),
      isFinal: (outcome) => this.#isFinal(outcome),
      save: () => this.#save(),
      feed: this.#feed,
      later: (delayMs, fire) => this.#later(delayMs, fire),
      isResolving: () => this.#resolving > 0,
    };
    this.#ready = this.#load();
    // Every call reports it.
    this.#ready.catch(() => undefined);
    this.#firstOpen = platform.firstOpen?.(this.#host);
    this.#later(limits.FIRST_OPEN_WAIT_MS, () => undefined);
  }

  get links(): AsyncIterable<Link> {
    return this.#feed;
  }

  onLink(listener: (link: Link) => void): () => void {
    return this.#feed.listen(listener);
  }

  open(url: string): Promise<Link | null> {
    return this.#resolve(url, false);
  }

  pasted(text: string): Promise<Link | null> {
    return this.#resolve(text, true);
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
    const { consent, user_id, click } = this.#state;
    if (consent !== 'all') return this.#drop('consent', 1);
    const isBad = !name || name.length > limits.NAME_CHARS_MAX;
    if (isBad || bytesOf(JSON.stringify(properties ?? {})) > limits.PROPERTIES_BYTES_MAX)
      return this.#drop('rejected', 1);
    await this.#sending.add({ name, event_id, timestamp, properties, revenue, user_id, ...click, ...fields });
    if ((await this.#queue.keys()).length < limits.BATCH_EVENTS_MAX) return this.#batchLater();
    this.#areEventsDue = true;
    void this.#run();
  }

  async identify(userId?: string): Promise<void> {
    await this.#ready;
    // Undefined is not stored.
    this.#state.user_id = userId;
    await this.#save();
  }

  reset(): Promise<void> {
    return this.identify();
  }

  async createLink(link: NewLink): Promise<CreatedLink> {
    await this.#ready;
    return (await this.#platform.links()).createLink(this.#host, link);
  }

  async setConsent(consent: Consent): Promise<void> {
    await this.#ready;
    await this.#become(consent);
    void this.#run();
  }

  /** @param isLastChance before the page may go: no lock is waited for. */
  async flush(isLastChance = false): Promise<Flushed> {
    await this.#ready;
    this.#areEventsDue = true;
    if (!isLastChance) await this.#work;
    await this.#run(isLastChance);
    return { queued: (await this.#queue.keys()).length, dropped: this.#state.dropped ?? nothing };
  }

  async check(): Promise<readonly Finding[]> {
    return (await import('./check.ts')).findings(this.#host.options, this.#connection, this.#clock);
  }

  async #load(): Promise<void> {
    this.#state = await loadState(this.#platform.store);
    await this.#become(this.#host.options.consent ?? this.#state.consent ?? 'all');
  }

  /** Everything that is kept is erased unless the consent is still complete. */
  async #become(consent: Consent): Promise<void> {
    if (consent === this.#state.consent) return;
    this.#generation++;
    const { opened, dropped } = this.#state;
    if (consent !== 'all') {
      this.#state = { consent, opened, dropped };
      const queued = await this.#queue.clear();
      if (queued > 0) await this.#drop('consent', queued);
    }
    const { kind, newId } = this.#platform;
    this.#state.consent = consent;
    if (consent === 'all' && kind !== 'server') {
      this.#state.device_id ??= newId('dev');
      if (kind === 'device') this.#state.install_id ??= newId('ins');
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
    this.#state.untaken = undefined;
    void this.#save().catch(() => undefined);
  }

  #later(delayMs: number, fire: () => void): void {
    this.#platform.timer(() => {
      fire();
      void this.#run();
    }, delayMs);
  }

  #batchLater(): void {
    if (this.#isBatchTimed) return;
    this.#isBatchTimed = true;
    this.#later(limits.BATCH_WAIT_MS, () => {
      this.#isBatchTimed = false;
      this.#areEventsDue = true;
    });
  }

  /** Works until there is nothing to do or a wait is due. */
  async #run(isLastChance = false): Promise<void> {
    if (this.#work && !isLastChance) return;
    const work = async () => {
      await this.#ready;
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
    this.#later(delayMs, () => {
      this.#isWaiting = false;
    });
  }

  /** Whether the outcome is final; if not, the wait begins. */
  #isFinal(outcome: Outcome): boolean {
    const waitMs = this.#connection.waitMs(outcome);
    if (waitMs) this.#wait(waitMs);
    return !waitMs;
  }

  /** @returns whether there may be more to do. */
  async #step(): Promise<boolean> {
    const { consent, device_id, install_id } = this.#state;
    if (consent === 'none') return false;
    const first = await this.#firstOpen?.step();
    if (typeof first === 'boolean') return first;
    if (consent !== 'all' || !this.#areEventsDue) return false;
    const { platform } = await this.#platform.device();
    const generation = this.#generation;
    const isCurrent = () => generation === this.#generation;
    const outcome = await this.#sending.send({ device_id, install_id, platform }, isCurrent, this.#platform.now);
    if (outcome) return this.#isFinal(outcome);
    this.#areEventsDue = false;
    return false;
  }

  /** Null if the consent changed meanwhile. */
  async #ask(path: string, fields: object, proof: string, timeoutMs?: number): Promise<Outcome | null> {
    const generation = this.#generation;
    const { device_id, install_id } = this.#state;
    const body = { ...(await this.#platform.device()), device_id, install_id, ...fields };
    const outcome = await this.#connection.ask(path, body, proof, timeoutMs);
    return generation === this.#generation ? outcome : null;
  }

  async #resolve(text: string, isPasted: boolean): Promise<Link | null> {
    this.#resolving++;
    try {
      await this.#ready;
      return await (await this.#platform.links()).resolveLink(this.#host, text, isPasted);
    } finally {
      this.#resolving--;
      void this.#run();
    }
  }
}
