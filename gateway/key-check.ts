/**
 * Whose API key is this, and may the app call again? One round trip to Redis answers both. What Redis doesn't know is
 * read from Postgres and put there. While Redis is away, or did not answer a moment ago, Postgres is asked each time, and
 * requests are counted in this process.
 *
 * Must stay true: a key is accepted by an answer of Redis or Postgres that was asked for after the request came in. This process
 * believes no key by itself, not for a moment, since it can't tell "Redis is away" from "only I have lost it, and
 * somebody rotates". What is shared is the question: at most one look-up of a key runs, and one waits for all who
 * came since it began. With Redis and Postgres both away a key is a 500.
 */
import { LRUCache } from 'lru-cache';
import type { ApiKeys } from '#common/api-key.ts';
import type { Clock } from '#common/clock.ts';
import type { CountedAddresses } from '#common/counted-addresses.ts';
import { limitAddress } from '#common/http/peer.ts';
import { type Rejection, rateLimited, unauthorized, unavailable } from '#common/http/rejection.ts';
import type { LimitClass } from '#common/http/route.ts';
import {
  type AppSnapshot,
  AppSnapshots,
  parseSnapshot,
  readAppByKey,
  snapshotKey,
  snapshotLua,
} from '#common/links/app-snapshot.ts';
import {
  type Charge,
  chargeOf,
  LocalWindows,
  limitKey,
  takeLua,
  WINDOW_MS,
  type Window,
  windowOf,
} from '#common/rate-limit.ts';
import { PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';
import type { Redis, Script } from '#common/stores/redis.ts';
import { sleep, systemTime } from '#common/time.ts';
import { TransientMap } from '#common/transient-map.ts';

const KEYS_REMEMBERED_MAX = 10_000;
const LOOKUPS_MAX = 50;
const REDIS_PAUSE_MS = 1_000;
/** How long is waited before each look at Postgres: a change of the app may be about to be committed. */
const LOOK_PAUSES_MS = [0, 5, 10, 20, 40, 80] as const;

/**
 * KEYS[1] the snapshot key. ARGV: what the limit key begins with; what it ends with; whether the app id stands
 * between them ("1"); how many requests; end of a window that begins now; its length. Answers {json, count, end}, or null
 * for an unknown key.
 */
const checkScript = `${snapshotLua}${takeLua}
local json, app_id = snapshot(KEYS[1])
if not json then return nil end
local key = ARGV[1]
if ARGV[3] == '1' then key = key .. app_id end
local count, reset_ms = take(key .. ARGV[2], ARGV[4], ARGV[5], ARGV[6])
return {json, count, reset_ms}
`;

/** A key that passed, or why not; the charge says what the limit headers are to show. */
export type KeyVerdict =
  | { readonly app: AppSnapshot; readonly charge: Charge }
  | { readonly rejection: Rejection; readonly charge: Charge | null };

type Refused = Extract<KeyVerdict, { rejection: Rejection }>;

export interface KeyCheckParts {
  readonly redis: Redis;
  readonly db: Queries;
  readonly keys: ApiKeys;
  /** Requests a minute of each class. */
  readonly limits: Readonly<Record<LimitClass, number>>;
  readonly addresses: CountedAddresses;
  readonly clock: Clock;
}

interface Question {
  requests: number;
  readonly answer: Promise<{ readonly app: AppSnapshot; readonly window: Window } | null>;
}

/** One that runs, and the one that begins after it for all who came meanwhile. */
interface Lookup {
  readonly answer: Promise<AppSnapshot | null>;
  next: Promise<AppSnapshot | null> | undefined;
}

interface Subject {
  readonly head: string;
  readonly tail: string;
  readonly isOfApp: boolean;
}

/** What is counted: an app, an app at an address, or an address. */
function subjectOf(limitClass: LimitClass, ip: string, addresses: CountedAddresses): Subject {
  switch (limitClass) {
    case 'match':
    case 'events':
      return { head: limitKey(limitClass, ''), tail: '', isOfApp: true };
    case 'links':
      return { head: limitKey(limitClass, ''), tail: `:${addresses.nameOf(limitAddress(ip))}`, isOfApp: true };
    case 'general':
    case 'auth':
      return { head: limitKey('general', addresses.nameOf(limitAddress(ip))), tail: '', isOfApp: false };
  }
}

export class KeyCheck {
  /** Since the start of the process. */
  readonly counters = { redis_hits: 0, postgres_reads: 0, redis_failures: 0 };
  readonly #parts: KeyCheckParts;
  readonly #snapshots: AppSnapshots;
  readonly #check: Script;
  readonly #hashes = new LRUCache<string, Buffer>({ max: KEYS_REMEMBERED_MAX });
  /** Parsed snapshots by their own text, so that a text is parsed once and an app is one object. */
  readonly #parsed = new LRUCache<string, { json: string; app: AppSnapshot }>({ max: KEYS_REMEMBERED_MAX });
  /** Keys that Postgres knew when it was last asked: those who hold one are not charged as guessers. */
  readonly #known = new LRUCache<string, true>({ max: KEYS_REMEMBERED_MAX });
  readonly #lookups = new Map<string, Lookup>();
  /** What will be asked at the end of this turn of the event loop, by key and who is counted. */
  readonly #questions = new TransientMap<string, Question>();
  readonly #windows = new LocalWindows();
  readonly #misses = new LocalWindows();
  #redisPausedUntilMs = 0;

  constructor(parts: KeyCheckParts) {
    this.#parts = parts;
    this.#snapshots = new AppSnapshots(parts.redis);
    this.#check = parts.redis.script(checkScript);
  }

  /** `key` has passed isApiKey. */
  async check(key: string, limitClass: LimitClass, ip: string): Promise<KeyVerdict> {
    const nowMs = this.#parts.clock();
    const isAway = nowMs < this.#redisPausedUntilMs;
    if (!isAway) {
      const verdict = await this.#ask(key, limitClass, ip, nowMs);
      if (verdict) return verdict;
    }
    for (const pauseMs of LOOK_PAUSES_MS) {
      if (pauseMs > 0) await sleep(systemTime, pauseMs);
      const app = await this.#read(key, ip, nowMs);
      if (!app || 'rejection' in app) return app ?? { rejection: unauthorized(), charge: null };
      const verdict = nowMs < this.#redisPausedUntilMs ? null : await this.#ask(key, limitClass, ip, nowMs);
      if (verdict) return verdict;
      if (nowMs < this.#redisPausedUntilMs) return this.#countHere(app, limitClass, ip, nowMs);
      // The app is being changed: its snapshots count for nothing until the change is committed. Look again.
    }
    return { rejection: unavailable(undefined, 1), charge: null };
  }

  /** While Redis is away. */
  #countHere(app: AppSnapshot, limitClass: LimitClass, ip: string, nowMs: number): KeyVerdict {
    const subject = subjectOf(limitClass, ip, this.#parts.addresses);
    const counted = subject.head + (subject.isOfApp ? app.app_id : '') + subject.tail;
    return verdictOf(app, chargeOf(this.#parts.limits[limitClass], this.#windows.take(counted, nowMs), nowMs));
  }

  /** Null when Redis doesn't know the key, or is away. */
  async #ask(key: string, limitClass: LimitClass, ip: string, nowMs: number): Promise<KeyVerdict | null> {
    const subject = subjectOf(limitClass, ip, this.#parts.addresses);
    const name = `${key} ${subject.head}${subject.tail}`;
    let question = this.#questions.get(name);
    if (!question) {
      question = { requests: 0, answer: this.#askAtTurnEnd(name, key, subject, nowMs) };
      this.#questions.set(name, question);
    }
    const place = ++question.requests;
    const answer = await question.answer;
    if (!answer) return null;
    const count = answer.window.count - question.requests + place;
    const charge = chargeOf(this.#parts.limits[limitClass], { count, resetMs: answer.window.resetMs }, nowMs);
    return verdictOf(answer.app, charge);
  }

  /** Requests of one turn with the same key are one question, which counts all of them: an app sends many at once. */
  async #askAtTurnEnd(name: string, key: string, { head, tail, isOfApp }: Subject, nowMs: number) {
    await new Promise((turnEnd) => setImmediate(turnEnd));
    const requests = this.#questions.get(name)?.requests ?? 1;
    this.#questions.delete(name);
    const args = [head, tail, isOfApp ? '1' : '0', requests, nowMs + WINDOW_MS, WINDOW_MS];
    let answer: unknown;
    try {
      answer = await this.#check([snapshotKey(this.#hash(key))], args);
    } catch {
      this.counters.redis_failures++;
      // Not nowMs: from before a second of silence the pause would be over already, and each request would wait its own second.
      this.#redisPausedUntilMs = this.#parts.clock() + REDIS_PAUSE_MS;
      return null;
    }
    if (!Array.isArray(answer) || typeof answer[0] !== 'string') return null;
    this.counters.redis_hits += requests;
    return { app: this.#parse(key, answer[0]), window: windowOf(answer.slice(1)) };
  }

  /** From Postgres: one look-up at a time for each key, few for all, and few unknown keys from one address. */
  async #read(key: string, ip: string, nowMs: number): Promise<AppSnapshot | Refused | null> {
    const running = this.#lookups.get(key);
    if (!running) {
      const isGuess = !this.#known.has(key);
      if (isGuess && this.#misses.take(limitAddress(ip), nowMs).count > this.#parts.limits.general) {
        return { rejection: rateLimited(WINDOW_MS / 1000), charge: null };
      }
      if (this.#lookups.size >= LOOKUPS_MAX) return { rejection: unavailable(undefined, 1), charge: null };
    }
    try {
      return await (running ? this.#after(key, running) : this.#begin(key));
    } catch (error) {
      if (error instanceof PostgresUnavailable) return { rejection: unavailable(), charge: null };
      throw error;
    }
  }

  #begin(key: string): Promise<AppSnapshot | null> {
    const lookup: Lookup = { answer: this.#lookUp(key), next: undefined };
    this.#lookups.set(key, lookup);
    const end = () => {
      if (!lookup.next) this.#lookups.delete(key);
    };
    lookup.answer.then(end, end);
    return lookup.answer;
  }

  /** What runs may have read before this request came: a key that was rotated in between would live on. */
  #after(key: string, running: Lookup): Promise<AppSnapshot | null> {
    const again = () => this.#begin(key);
    running.next ??= running.answer.then(again, again);
    return running.next;
  }

  async #lookUp(key: string): Promise<AppSnapshot | null> {
    this.counters.postgres_reads++;
    const app = await readAppByKey(this.#parts.db, this.#parts.keys.hashes(key));
    if (app) this.#known.set(key, true);
    else this.#known.delete(key);
    if (app && this.#parts.clock() >= this.#redisPausedUntilMs) {
      await this.#snapshots.write(this.#hash(key), app).catch(() => {
        this.counters.redis_failures++;
        this.#redisPausedUntilMs = this.#parts.clock() + REDIS_PAUSE_MS;
      });
    }
    return app;
  }

  #hash(key: string): Buffer {
    let hash = this.#hashes.get(key);
    if (!hash) {
      hash = this.#parts.keys.hash(key);
      this.#hashes.set(key, hash);
    }
    return hash;
  }

  #parse(key: string, json: string): AppSnapshot {
    const known = this.#parsed.get(key);
    if (known?.json === json) return known.app;
    const app = parseSnapshot(json);
    this.#parsed.set(key, { json, app });
    return app;
  }
}

function verdictOf(app: AppSnapshot, charge: Charge): KeyVerdict {
  return charge.rejection ? { rejection: charge.rejection, charge } : { app, charge };
}
