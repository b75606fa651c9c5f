/**
 * Copies clicks from the log to Redis within a second, so that a device can be matched to a click while ClickHouse is
 * unavailable and the sink waits. It normally uses the frames that the owner of its partition reads for the sink. Its own
 * reader costs ingest and NATS about a tenth more, and is only used where the owner's is not where the feed should be:
 *
 *   reading itself ──both readers have caught up──▶ both ──its own has caught up again──▶ following
 *         ▲                                            │                                     │
 *         └─ the owner's reader is behind for seconds, Redis is slow, ◀────────────────────┘
 *            or Redis has lost its clicks
 *
 *   reading itself ──buffer full──▶ paused ──written──▶ reading itself
 *      ├─ Redis unavailable, or refusing: the frames already read wait, and are written again until Redis accepts them
 *      └─ Redis full and evicting nothing: clicks that it does not accept for some seconds are skipped and counted, so
 *         that the newest clicks get in as soon as there is room
 *
 * It runs in the process that has the lease of its partition, for as long as the process holds it.
 *
 * Invariants:
 * - Writing a click again changes nothing, so starting too early is harmless.
 * - Its own reader is stopped only if it was at the end of the log a second after the feed took the first frame of the
 *   owner's reader: it has delivered all that came before. Sequences would not do, because a stream may be replaced.
 * - The range of clicks in Redis is stored in Redis itself, as two times of the log: `begin position`. If that key is
 *   gone, the clicks are gone too, and the last hours are read again. The key is checked once a second, whether clicks
 *   arrive or not. Redis may also evict only the key, repeatedly: a reread must have caught up, and a minute must have
 *   passed, before the next one begins.
 * - A `begin` other than the one this feed knows means that Redis has lost its clicks and that another feed of the
 *   partition (an owner that has not yet noticed its end) saw the loss first: this feed continues from that feed's
 *   position. A position only grows, and only under its own `begin`, so whichever feed ends, its successor reads
 *   everything that is missing.
 */
import { addressName } from '#common/address-writer.ts';
import {
  type ClickPlace,
  type ClickToPut,
  KEPT_BY_ID_MS,
  type RecentClicks,
} from '#common/attribution/recent-clicks.ts';
import { HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { payloadOf } from '#common/log/frame.ts';
import type { Click } from '#common/log/record.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import { isRedisFull, isRedisUnavailable, isReplyError, type Redis, type Script } from '#common/stores/redis.ts';
import type { Time, Timer } from '#common/time.ts';
import type { LogFrame } from '#ingest/formed-batch.ts';
import type { StoreTimes } from '#ingest/frame-clock.ts';
import { LogReader, type ReaderProgress } from '#ingest/log-reader.ts';
import { decodeClick, decodeClicks, isRejection } from '#ingest/record-decoder.ts';
import { type Agent, ClickAgents } from './click-agents.ts';
import type { AppFacts, KnownApps } from './known-apps.ts';

const WAITING_FRAMES_MAX = 200;
/** Maximum that may wait while following: the owner's reader is not paused for Redis. */
const FOLLOWED_BYTES_MAX = 16_777_216;
const BEHIND_MAX_MS = 5_000;
/** Reading itself begins with the last two minutes, so it must not alternate often with following. */
const FOLLOW_AGAIN_MS = 10 * MINUTE_MS;
/** How long both readers are used, at least and at most. A server of NATS may be behind another one. */
const BOTH_MIN_MS = 1_000;
const BOTH_MAX_MS = MINUTE_MS;
const RETRY_MS = 250;
const POSITION_MS = 1_000;
const REREAD_MS = 6 * HOUR_MS;
const REREAD_PAUSE_MS = 60_000;
const FULL_PATIENCE_MS = 5_000;

/**
 * KEYS: the position. ARGV: the `begin` and the position of this feed, a `begin` to use if none is stored, and the last
 * possible position: a later one was written by a wrong clock, and counts as none.
 * @returns the values stored afterwards.
 */
const advanceScript = `
local begin, position = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+)$')
if not begin or tonumber(position) > tonumber(ARGV[4]) then begin, position = ARGV[3], ARGV[3]
elseif begin == ARGV[1] and tonumber(position) < tonumber(ARGV[2]) then position = ARGV[2]
else return {begin, position} end
redis.call('SET', KEYS[1], begin .. ' ' .. position)
return {begin, position}
`;

export interface FeedOptions {
  readonly nats: NatsClient;
  readonly redis: Redis;
  readonly clicks: RecentClicks;
  readonly apps: Pick<KnownApps, 'lastOf'>;
  readonly partition: number;
  readonly storeTimes?: StoreTimes;
  readonly time: Time;
  readonly log: (line: string) => void;
  /** Shared by all feeds of a process. */
  readonly counters?: FeedCounters;
  readonly agents?: ClickAgents;
}

export interface FeedCounters {
  clicks: number;
  /** Clicks read while Redis was full, and not stored. */
  clicks_skipped: number;
  redis_failures: number;
  rereads: number;
  /** Frames taken from the owner's reader. */
  frames_followed: number;
  /** How often a feed began to do without a reader of its own. */
  own_readers_stopped: number;
}

export function newFeedCounters(): FeedCounters {
  return { clicks: 0, clicks_skipped: 0, redis_failures: 0, rereads: 0, frames_followed: 0, own_readers_stopped: 0 };
}

export class RecentClicksFeed {
  /** Since the start of the process. */
  readonly counters: FeedCounters;
  readonly #options: FeedOptions;
  readonly #positionKey: string;
  readonly #agents: ClickAgents;
  readonly #advance: Script;
  /** Undefined before the start, and while it follows the owner's. */
  #reader: LogReader | undefined;
  #followed: ReaderProgress | undefined;
  #mayFollowAt = Number.NEGATIVE_INFINITY;
  #followedAt = 0;
  #waiting: LogFrame[] = [];
  #waitingBytes = 0;
  #isWriting = false;
  #isStopped = false;
  /** The times of the log between which clicks are in Redis, in ms. */
  #begin = 0;
  #position = 0;
  #isPositionDue = false;
  #timer: Timer | undefined;
  #isCaughtUp = true;
  #rereadAt = Number.NEGATIVE_INFINITY;
  #fullSince: number | undefined;
  #isRefused = false;
  #wake: (() => void) | undefined;

  constructor(options: FeedOptions) {
    this.#options = options;
    this.counters = options.counters ?? newFeedCounters();
    this.#agents = options.agents ?? new ClickAgents();
    this.#advance = options.redis.script(advanceScript);
    this.#positionKey = `clicks_fed:${options.partition}`;
  }

  /** Continues from the stored position as soon as Redis can be read. */
  async start(): Promise<void> {
    const stored = await this.#store();
    if (this.#isStopped) return;
    // If Redis has been full for too long, no position is stored: once one can be, the feed treats that as a loss.
    [this.#begin, this.#position] = stored ?? [0, this.#now() - REREAD_MS];
    this.#read();
    this.#timer = this.#options.time.every(POSITION_MS, () => {
      this.#lookAtReaders();
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

  /** Takes a frame of the owner's reader, or ignores it while this feed reads itself. */
  take(frame: LogFrame, reader: ReaderProgress): void {
    if (this.#isStopped || (this.#followed !== reader && !this.#follow(reader))) return;
    if (frame.header.kind !== 'click') return;
    this.counters.frames_followed++;
    this.#push(frame);
    if (this.#waitingBytes >= FOLLOWED_BYTES_MAX) this.#endFollowing();
  }

  /** @returns whether the feed takes the frames of that reader from now on. */
  #follow(reader: ReaderProgress): boolean {
    const now = this.#options.time.elapsed();
    if (this.#reader === undefined || now < this.#mayFollowAt) return false;
    if (now - Math.min(this.#reader.caughtUpAt, reader.caughtUpAt) > BEHIND_MAX_MS) return false;
    this.#followed = reader;
    this.#followedAt = now;
    return true;
  }

  #lookAtReaders(): void {
    if (this.#followed === undefined) return;
    const now = this.#options.time.elapsed();
    const isBothForLong = this.#reader !== undefined && now - this.#followedAt > BOTH_MAX_MS;
    if (isBothForLong || now - this.#followed.caughtUpAt > BEHIND_MAX_MS) this.#endFollowing();
    else if (this.#reader !== undefined && this.#reader.caughtUpAt - this.#followedAt > BOTH_MIN_MS) {
      this.#reader.stop();
      this.#reader = undefined;
      this.counters.own_readers_stopped++;
      this.#isCaughtUp = true;
    }
  }

  #endFollowing(): void {
    this.#mayFollowAt = this.#options.time.elapsed() + FOLLOW_AGAIN_MS;
    this.#followed = undefined;
    if (this.#reader === undefined) this.#read();
  }

  #push(frame: LogFrame): void {
    this.#waiting.push(frame);
    this.#waitingBytes += frame.bytes.length;
    if (!this.#isWriting) void this.#write();
  }

  #read(): void {
    const { nats, partition, time, log, storeTimes } = this.#options;
    this.#followed = undefined;
    this.#reader?.stop();
    this.#reader = new LogReader({
      nats,
      time,
      partition,
      storeTimes,
      kind: 'click',
      position: () => this.#position,
      onFrame: (frame) => {
        this.#push(frame);
        return this.#waiting.length < WAITING_FRAMES_MAX;
      },
      onCaughtUp: () => {
        this.#isCaughtUp = true;
      },
      log,
    });
    this.#reader.start();
  }

  /** Writes the waiting clicks, and the position when it is due; one write at a time. */
  async #write(): Promise<void> {
    this.#isWriting = true;
    // The frames of a message arrive in the same turn of the event loop; this groups them into one write.
    await Promise.resolve();
    while ((this.#waiting.length > 0 || this.#isPositionDue) && !this.#isStopped) {
      const frames = this.#waiting;
      this.#waiting = [];
      this.#waitingBytes = 0;
      if (frames.length > 0) {
        const clicks = clicksOfAll(frames);
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
    const now = this.#now();
    const entries: ClickToPut[] = [];
    for (const click of clicks) {
      const app = apps.get(click.app_id);
      if (app === undefined) continue;
      const agent = this.#agents.of(click.user_agent);
      const is_bot = agent.isBot || click.is_prefetch || click.is_preview;
      const isOld = now - click.time >= KEPT_BY_ID_MS;
      const near = is_bot ? null : placeOf(click, agent, app, now);
      if (!isOld || near !== null) entries.push({ click, is_bot, isOld, near });
    }
    await this.#options.clicks.put(entries);
    return true;
  }

  /** A changed `begin` means that Redis may have lost everything: reading returns to the position stored with it. */
  async #savePosition(): Promise<void> {
    this.#isPositionDue = false;
    const { time } = this.#options;
    const stored = await this.#store();
    if (this.#isStopped || stored === undefined || stored[0] === this.#begin) return;
    if (!this.#isCaughtUp || time.elapsed() - this.#rereadAt < REREAD_PAUSE_MS) return;
    this.counters.rereads++;
    this.#isCaughtUp = false;
    this.#rereadAt = time.elapsed();
    [this.#begin, this.#position] = stored;
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#read();
  }

  /**
   * @returns the stored `begin` and position; undefined if the feed was stopped, or Redis has been full for too long.
   */
  async #store(): Promise<readonly [begin: number, position: number] | undefined> {
    const now = Math.floor(this.#now());
    const [begin, last] = [Math.max(0, now - REREAD_MS), now + HOUR_MS];
    const position = Math.floor(Math.min(this.#position, last));
    const stored = await this.#patiently(() =>
      this.#advance([this.#positionKey], [this.#begin, position, begin, last]),
    );
    const [at, to] = (stored ?? []) as readonly string[];
    return stored === undefined ? undefined : [Number(at), Number(to)];
  }

  /** Epoch ms. The clock of this process decides nothing once that of ClickHouse is known. */
  #now(): number {
    return this.#options.storeTimes?.now ?? this.#options.time.now();
  }

  /**
   * Repeats a write until Redis accepts it, whatever Redis answers.
   * @returns undefined if the feed was stopped before that, or Redis has been full for too long.
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

  /** Logs once when Redis starts to refuse and once when it accepts again, however many attempts are in between. */
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

/** The key that finds a person's click by address; null if no device can be matched to it. */
function placeOf(click: Click, { platform }: Agent, app: AppFacts, now: number): ClickPlace | null {
  const hasPlatform = (platform === 'ios' && app.has_ios) || (platform === 'android' && app.has_android);
  const windowMs = app.probabilistic_window_hours * HOUR_MS;
  if (!hasPlatform || click.trigger !== 'link' || now - click.time >= windowMs) return null;
  const address = addressName(click.ip, click.privacy_mode);
  return address === '' ? null : { address, browser: click, windowMs };
}

/** Drops repeated frames, so that no line is written twice to a new key. */
function clicksOfAll(frames: readonly LogFrame[]): Click[] {
  const names = new Set<string>();
  return frames.flatMap((frame) => {
    const name = `${frame.header.producer_id}:${frame.header.frame_no}`;
    if (names.has(name)) return [];
    names.add(name);
    return clicksOf(frame);
  });
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
