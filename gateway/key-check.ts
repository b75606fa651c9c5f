/**
 * Authenticates an API key and charges the request to its rate limit, in one round trip to Redis. A key that Redis does
 * not have is read from Postgres and cached in Redis. While Redis is unavailable, and for one second after it failed to
 * answer, every lookup goes to Postgres, and requests are counted in this process.
 *
 * Invariant: a key is accepted only by an answer of Redis or Postgres to a query sent after the request arrived. This
 * process never caches accepted keys, not even briefly, because it cannot distinguish "Redis is down" from "only this
 * process has lost Redis, and a key is being rotated". Only queries are shared (key-questions.ts): at most one lookup
 * per key runs, and one more waits for all requests that arrived since it began. With both Redis and Postgres
 * unavailable, the answer is 500.
 */
import { LRUCache } from 'lru-cache';
import type { ApiKeys } from '#common/api-key.ts';
import { type Clock, isPaused } from '#common/clock.ts';
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
  versionKey,
} from '#common/links/app-snapshot.ts';
import { type Charge, chargeOf, LocalWindows, limitKey, takeLua, WINDOW_MS, windowOf } from '#common/rate-limit.ts';
import { PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';
import type { Redis, Script } from '#common/stores/redis.ts';
import { sleep, systemTime } from '#common/time.ts';
import { type Answered, KeyQuestions, type Question, type Subject } from './key-questions.ts';

const KEYS_REMEMBERED_MAX = 10_000;
const LOOKUPS_MAX = 50;
const REDIS_PAUSE_MS = 1_000;
/** Pauses before each lookup in Postgres, because a change of the app may be about to be committed. */
const LOOK_PAUSES_MS = [0, 5, 10, 20, 40, 80] as const;

/**
 * KEYS: the snapshot key; the version key of the app that the API key is assumed to belong to; the limit key. ARGV:
 * that app's id; number of requests; end of a window that begins now; its length. Returns {json, count, end}. If the key belongs to another app, returns that app's id and counts nothing. Returns null for an unknown key.
 */
const checkScript = `${snapshotLua}${takeLua}
local json, app_id = snapshot(KEYS[1], KEYS[2], ARGV[1])
if not json then return app_id end
local count, reset_ms = take(KEYS[3], ARGV[2], ARGV[3], ARGV[4])
return {json, count, reset_ms}
`;

/** An accepted key, or why it was rejected; the charge determines the limit headers. */
export type KeyVerdict =
  | { readonly app: AppSnapshot; readonly charge: Charge }
  | { readonly rejection: Rejection; readonly charge: Charge | null };

type Refused = Extract<KeyVerdict, { rejection: Rejection }>;

export interface KeyCheckParts {
  readonly redis: Redis;
  readonly db: Queries;
  readonly keys: ApiKeys;
  /** Requests per minute of each class. */
  readonly limits: Readonly<Record<LimitClass, number>>;
  readonly addresses: CountedAddresses;
  readonly clock: Clock;
}

/** The running lookup, and the next one, which all requests that have arrived since share. */
interface Lookup {
  readonly answer: Promise<AppSnapshot | null>;
  next: Promise<AppSnapshot | null> | undefined;
}

/** The subject of the limit: an app, an app at an address, or an address. */
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
  /** Parsed snapshots by their JSON, so that each is parsed once and an app is one object. */
  readonly #parsed = new LRUCache<string, { json: string; app: AppSnapshot }>({ max: KEYS_REMEMBERED_MAX });
  /** Keys that Postgres knew at the last lookup: requests with them are not counted as guesses. */
  readonly #known = new LRUCache<string, true>({ max: KEYS_REMEMBERED_MAX });
  readonly #lookups = new Map<string, Lookup>();
  readonly #questions: KeyQuestions;
  readonly #windows = new LocalWindows();
  readonly #misses = new LocalWindows();
  #redisPausedUntilMs = 0;

  constructor(parts: KeyCheckParts) {
    this.#parts = parts;
    this.#snapshots = new AppSnapshots(parts.redis);
    this.#check = parts.redis.script(checkScript);
    this.#questions = new KeyQuestions({
      query: (question) => this.#query(question),
      together: (send) => parts.redis.together(send),
    });
  }

  /** Whether Redis had the key at the last query; if so, the key is well-formed. */
  hasSeen(key: string): boolean {
    return this.#parsed.has(key);
  }

  /** @param key must have passed isApiKey. */
  async check(key: string, limitClass: LimitClass, ip: string): Promise<KeyVerdict> {
    const nowMs = this.#parts.clock();
    if (!isPaused(nowMs, this.#redisPausedUntilMs)) {
      const question = this.#questions.ask(key, subjectOf(limitClass, ip, this.#parts.addresses), nowMs);
      const place = question.requests;
      const answer = await question.answer;
      if (answer) return this.#verdict(answer, question, place, limitClass, nowMs);
    }
    return this.#checkWithPostgres(key, limitClass, ip, nowMs);
  }

  #verdict(
    { app, window }: Answered,
    { requests }: Question,
    place: number,
    limitClass: LimitClass,
    nowMs: number,
  ): KeyVerdict {
    const count = window.count - requests + place;
    return verdictOf(app, chargeOf(this.#parts.limits[limitClass], { count, resetMs: window.resetMs }, nowMs));
  }

  /** Handles a key that Redis does not know or did not answer for. */
  async #checkWithPostgres(key: string, limitClass: LimitClass, ip: string, nowMs: number): Promise<KeyVerdict> {
    for (const pauseMs of LOOK_PAUSES_MS) {
      if (pauseMs > 0) await sleep(systemTime, pauseMs);
      const app = await this.#read(key, ip, nowMs);
      if (!app || 'rejection' in app) return app ?? { rejection: unauthorized(), charge: null };
      if (!isPaused(nowMs, this.#redisPausedUntilMs)) {
        const question = this.#questions.ask(key, subjectOf(limitClass, ip, this.#parts.addresses), nowMs);
        const place = question.requests;
        const answer = await question.answer;
        if (answer) return this.#verdict(answer, question, place, limitClass, nowMs);
      }
      if (isPaused(nowMs, this.#redisPausedUntilMs)) return this.#countHere(app, limitClass, ip, nowMs);
      // The app is being changed: its snapshots are invalid until the change is committed. Look it up again.
    }
    return { rejection: unavailable(undefined, 1), charge: null };
  }

  /** Counts in this process while Redis is unavailable. */
  #countHere(app: AppSnapshot, limitClass: LimitClass, ip: string, nowMs: number): KeyVerdict {
    const subject = subjectOf(limitClass, ip, this.#parts.addresses);
    const counted = subject.head + (subject.isOfApp ? app.app_id : '') + subject.tail;
    return verdictOf(app, chargeOf(this.#parts.limits[limitClass], this.#windows.take(counted, nowMs), nowMs));
  }

  async #query({ key, subject, requests, askedMs }: Question): Promise<Answered | null> {
    // The previous query may have failed in the meantime.
    if (isPaused(this.#parts.clock(), this.#redisPausedUntilMs)) return null;
    const { head, tail, isOfApp } = subject;
    const ask = (appId: string) =>
      this.#check(
        [snapshotKey(this.#hash(key)), versionKey(appId), head + (isOfApp ? appId : '') + tail],
        [appId, requests, askedMs + WINDOW_MS, WINDOW_MS],
      );
    let answer: unknown;
    try {
      answer = await ask(this.#parsed.get(key)?.app.app_id ?? '');
      // On the first use of a key, this process does not know its app and must ask again with the app's id.
      if (typeof answer === 'string') answer = await ask(answer);
    } catch {
      this.counters.redis_failures++;
      // Not based on askedMs, which dates from before the second of waiting: the pause would already be over, and each
      // request would wait a second of its own.
      this.#redisPausedUntilMs = this.#parts.clock() + REDIS_PAUSE_MS;
      return null;
    }
    if (!Array.isArray(answer) || typeof answer[0] !== 'string') return null;
    this.counters.redis_hits += requests;
    return { app: this.#parse(key, answer[0]), window: windowOf(answer.slice(1)) };
  }

  /**
   * Reads from Postgres. Limits: one lookup at a time per key, LOOKUPS_MAX in total, and few unknown keys per address.
   */
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

  /**
   * Waits for a new lookup: the running one may have read before this request arrived, and would accept a key rotated
   * since.
   */
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
    if (app && !isPaused(this.#parts.clock(), this.#redisPausedUntilMs)) {
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
