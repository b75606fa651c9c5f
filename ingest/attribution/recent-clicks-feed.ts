/**
 * Carries clicks from the log to Redis within a second, with its own reader, so that a device can be matched to a
 * click while ClickHouse is unavailable and the sink waits.
 *
 *   reading ──buffer full──▶ paused ──written──▶ reading
 *      ├─ Redis unavailable, or refusing: what was read waits, and is written again until Redis accepts it
 *      └─ Redis full and evicting nothing: what it does not accept for some seconds is skipped and counted, so that the newest
 *         clicks get in as soon as there is room
 *
 * It runs in the process that has the lease of its partition, for as long as that holds.
 *
 * Must stay true:
 * - Writing a click again changes nothing, so starting too early is harmless.
 * - The position is stored in Redis itself: when Redis has lost it, it has lost the clicks too, and the last hours are read
 *   again. That is checked once a second, whether clicks come or not. Redis may also have evicted the position alone, again and
 *   again: one reread must have caught up, and a minute must have passed, before the next begins.
 * - The position is only ever written over an existing one. A lost one is set to where a reread begins, and stays there until
 *   it begins, so that a successor of a process that dies before or during the reread begins it again.
 */
import { addressName } from '#common/address-writer.ts';
import {
  type ClickPlace,
  type ClickToPut,
  KEPT_BY_ID_MS,
  type RecentClicks,
} from '#common/attribution/recent-clicks.ts';
import { HOUR_MS } from '#common/durations.ts';
import { isId } from '#common/ids.ts';
import { payloadOf } from '#common/log/frame.ts';
import type { Click } from '#common/log/record.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import { isRedisFull, isRedisUnavailable, isReplyError, type Redis } from '#common/stores/redis.ts';
import type { Time, Timer } from '#common/time.ts';
import type { LogFrame } from '#ingest/formed-batch.ts';
import { LogReader } from '#ingest/log-reader.ts';
import { decodeClick, decodeClicks, isRejection } from '#ingest/record-decoder.ts';
import { type Agent, ClickAgents } from './click-agents.ts';
import type { AppFacts, KnownApps } from './known-apps.ts';

const WAITING_FRAMES_MAX = 200;
const RETRY_MS = 250;
const POSITION_MS = 1_000;
const REREAD_MS = 6 * HOUR_MS;
const REREAD_PAUSE_MS = 60_000;
const FULL_PATIENCE_MS = 5_000;

export interface FeedOptions {
  readonly nats: NatsClient;
  readonly redis: Redis;
  readonly clicks: RecentClicks;
  readonly apps: Pick<KnownApps, 'lastOf'>;
  readonly partition: number;
  readonly time: Time;
  readonly log: (line: string) => void;
  /** Of all feeds of a process. */
  readonly counters?: FeedCounters;
  readonly agents?: ClickAgents;
}

export interface FeedCounters {
  clicks: number;
  /** Read while Redis was full. */
  clicks_skipped: number;
  redis_failures: number;
  rereads: number;
}

export function newFeedCounters(): FeedCounters {
  return { clicks: 0, clicks_skipped: 0, redis_failures: 0, rereads: 0 };
}

export class RecentClicksFeed {
  /** Since the start of the process. */
  readonly counters: FeedCounters;
  readonly #options: FeedOptions;
  readonly #positionKey: string;
  readonly #agents: ClickAgents;
  #reader: LogReader | undefined;
  #waiting: LogFrame[] = [];
  #isWriting = false;
  #isStopped = false;
  #position = 0;
  #isPositionDue = false;
  #timer: Timer | undefined;
  #isCaughtUp = true;
  #rereadAt = Number.NEGATIVE_INFINITY;
  #isRereadDue = false;
  #fullSince: number | undefined;
  #isRefused = false;
  #wake: (() => void) | undefined;

  constructor(options: FeedOptions) {
    this.#options = options;
    this.counters = options.counters ?? newFeedCounters();
    this.#agents = options.agents ?? new ClickAgents();
    this.#positionKey = `clicks_read:${options.partition}`;
  }

  /** Continues from the stored position, as soon as Redis can be read. */
  async start(): Promise<void> {
    const saved = await this.#patiently(() => this.#options.redis.commands.get(this.#positionKey));
    this.#position = Number(saved ?? 0);
    if (this.#position === 0) this.#position = await this.#storeBegin();
    if (this.#isStopped) return;
    this.#read();
    this.#timer = this.#options.time.every(POSITION_MS, () => {
      this.#isPositionDue = true;
      if (!this.#isWriting && this.#options.redis.isConnected()) void this.#write();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#options.time.clear(this.#timer);
    this.#reader?.stop();
    this.#wake?.();
  }

  #read(): void {
    const { nats, partition, time, log } = this.#options;
    this.#reader?.stop();
    this.#reader = new LogReader({
      nats,
      time,
      partition,
      kind: 'click',
      position: () => this.#position,
      onFrame: (frame) => {
        this.#waiting.push(frame);
        if (!this.#isWriting) void this.#write();
        return this.#waiting.length < WAITING_FRAMES_MAX;
      },
      onCaughtUp: () => {
        this.#isCaughtUp = true;
      },
      log,
    });
    this.#reader.start();
  }

  /** Writes the clicks that wait, and the position when it is due; one write at a time. */
  async #write(): Promise<void> {
    this.#isWriting = true;
    while ((this.#waiting.length > 0 || this.#isPositionDue) && !this.#isStopped) {
      const frames = this.#waiting;
      this.#waiting = [];
      if (frames.length > 0) {
        const clicks = frames.flatMap(clicksOf);
        const isTaken = await this.#patiently(() => this.#put(clicks));
        if (isTaken) this.counters.clicks += clicks.length;
        else if (!this.#isStopped) this.counters.clicks_skipped += clicks.length;
        for (const { streamTime } of frames) this.#position = Math.max(this.#position, streamTime);
      }
      if (this.#isPositionDue) await this.#savePosition();
      this.#reader?.resume();
    }
    this.#isWriting = false;
  }

  async #put(clicks: readonly Click[]): Promise<true> {
    const apps = await this.#options.apps.lastOf(new Set(clicks.map(({ app_id }) => app_id)));
    const now = this.#options.time.now();
    const entries: ClickToPut[] = [];
    for (const click of clicks) {
      const app = apps.get(click.app_id);
      if (app === undefined || !isId('clk', click.click_id)) continue;
      const agent = this.#agents.of(click.user_agent);
      const is_bot = agent.isBot || click.is_prefetch || click.is_preview;
      const isOld = now - click.time >= KEPT_BY_ID_MS;
      const near = is_bot ? null : placeOf(click, agent, app, now);
      if (!isOld || near !== null) entries.push({ click, is_bot, isOld, near });
    }
    await this.#options.clicks.put(entries);
    return true;
  }

  /** A position that is gone means that Redis may have lost everything: the last hours are read again. */
  async #savePosition(): Promise<void> {
    this.#isPositionDue = false;
    const { redis, time } = this.#options;
    if (!this.#isRereadDue) {
      const saved = await this.#patiently(() => redis.commands.set(this.#positionKey, this.#position, 'XX'));
      if (this.#isStopped || saved !== null) return;
      this.#isRereadDue = true;
    }
    const begin = await this.#storeBegin();
    if (this.#isStopped || !this.#isCaughtUp || time.elapsed() - this.#rereadAt < REREAD_PAUSE_MS) return;
    this.counters.rereads++;
    this.#isRereadDue = false;
    this.#isCaughtUp = false;
    this.#rereadAt = time.elapsed();
    this.#position = begin;
    this.#waiting = [];
    this.#read();
  }

  /** Stores where a reread begins, so that a successor begins there too if this process dies before it has caught up. */
  async #storeBegin(): Promise<number> {
    const begin = this.#options.time.now() - REREAD_MS;
    await this.#patiently(() => this.#options.redis.commands.set(this.#positionKey, begin));
    return begin;
  }

  /**
   * Repeats a write until Redis accepts it, whatever it answers; undefined when the feed was stopped before that, or Redis has been
   * full for too long.
   */
  async #patiently<T>(step: () => Promise<T>): Promise<T | undefined> {
    while (!this.#isStopped) {
      try {
        const taken = await step();
        this.#fullSince = undefined;
        this.#tell(null);
        return taken;
      } catch (error) {
        // No answer of Redis may end ingest: everything in Redis is a copy.
        if (!isRedisUnavailable(error) && !isReplyError(error)) throw error;
        this.counters.redis_failures++;
        this.#tell(error);
        const { time } = this.#options;
        this.#fullSince = isRedisFull(error) ? (this.#fullSince ?? time.elapsed()) : undefined;
        if (this.#fullSince !== undefined && time.elapsed() - this.#fullSince > FULL_PATIENCE_MS) return undefined;
        await new Promise<void>((done) => {
          const timer = time.after(RETRY_MS, done);
          this.#wake = () => {
            time.clear(timer);
            done();
          };
        });
      }
    }
    return undefined;
  }

  /** Logs once when Redis begins to refuse and once when it accepts again, however many tries lie between. */
  #tell(refusal: unknown): void {
    const isRefused = refusal !== null;
    if (isRefused === this.#isRefused) return;
    this.#isRefused = isRefused;
    const reason = refusal instanceof Error ? refusal.message.slice(0, 200) : '';
    this.#options.log(
      isRefused ? `Redis does not accept recent clicks: ${reason}` : 'Redis accepts recent clicks again',
    );
  }
}

/** Where a person's click is found by its address; null where no device can be matched to it. */
function placeOf(click: Click, { platform }: Agent, app: AppFacts, now: number): ClickPlace | null {
  const hasPlatform = (platform === 'ios' && app.has_ios) || (platform === 'android' && app.has_android);
  const windowMs = app.probabilistic_window_hours * HOUR_MS;
  if (!hasPlatform || click.trigger !== 'link' || now - click.time >= windowMs) return null;
  const address = addressName(click.ip, click.privacy_mode);
  return address === '' ? null : { address, browser: click, windowMs };
}

function clicksOf(frame: LogFrame): Click[] {
  const text = payloadOf(frame.bytes, frame.header).toString();
  const all = decodeClicks(text, frame.header.records);
  if (all !== undefined) return all;
  const clicks: Click[] = [];
  for (const line of text.split('\n')) {
    const click = line === '' ? null : decodeClick(line);
    if (click && !isRejection(click)) clicks.push(click);
  }
  return clicks;
}
