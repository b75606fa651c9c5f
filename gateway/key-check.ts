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
import { type Charge, chargeOf, LocalWindows, takeLua, WINDOW_MS, type Window } from '#common/rate-limit.ts';
import { PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';
import type { Redis, Script } from '#common/stores/redis.ts';
import { sleep, systemTime } from '#common/time.ts';
import { type Answered, KeyQuestions, type Question } from './key-questions.ts';
import { type Chain, type Level, LimitChains, levelKey } from './limit-chain.ts';

const KEYS_REMEMBERED_MAX = 10_000;
const LOOKUPS_MAX = 50;
const REDIS_PAUSE_MS = 1_000;
/** Pauses before each lookup in Postgres, because a change of the app may be about to be committed. */
const LOOK_PAUSES_MS = [0, 5, 10, 20, 40, 80] as const;

/**
 * KEYS: the snapshot key; the version key of the app that the API key is assumed to belong to; for each group of
 * requests, the key of each of its levels. ARGV: that app's id; the time; for each group, its requests, its number of
 * levels, and for each level its limit and the length of its window. Returns {json, windows}; the windows are
 * what each level had counted before, and its end. If the key belongs to another app, returns that app's id and
 * counts nothing. Returns null for an unknown key.
 */
const checkScript = `${snapshotLua}${takeLua}
local json, app_id = snapshot(KEYS[1], KEYS[2], ARGV[1])
if not json then return app_id end
local windows, key, arg = {}, 3, 3
while ARGV[arg] do
  local requests, levels = tonumber(ARGV[arg]), tonumber(ARGV[arg + 1])
  arg = arg + 2
  for _ = 1, levels do
    local before, reset_ms = 0, 0
    if requests > 0 then
      local count
      count, reset_ms = take(KEYS[key], requests, ARGV[2] + ARGV[arg + 1], ARGV[arg + 1])
      before = count - requests
      requests = math.max(0, math.min(requests, ARGV[arg] - before))
    end
    windows[#windows + 1] = before
    windows[#windows + 1] = reset_ms
    key, arg = key + 1, arg + 2
  end
end
return {json, windows}
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
  readonly #chains: LimitChains;
  readonly #questions: KeyQuestions;
  readonly #windows = new LocalWindows();
  readonly #misses = new LocalWindows();
  /** Requests of a key from a network. */
  readonly #own = new LocalWindows();
  #redisPausedUntilMs = 0;

  constructor(parts: KeyCheckParts) {
    this.#parts = parts;
    this.#snapshots = new AppSnapshots(parts.redis);
    this.#check = parts.redis.script(checkScript);
    this.#chains = new LimitChains(parts.limits, parts.addresses);
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
    const chain = this.#chainOf(key, limitClass, ip, nowMs);
    if (!isPaused(nowMs, this.#redisPausedUntilMs)) {
      const group = this.#questions.ask(key, chain, nowMs);
      const place = group.requests;
      const answer = await group.question.answer;
      if (answer) return verdictOf(answer.app, chain, (level) => windowAt(answer, group.at + 2 * level, place), nowMs);
    }
    return this.#checkWithPostgres(key, chain, ip, nowMs);
  }

  /** Without the levels of networks, as long as this process has had few requests of the key from each of them. */
  #chainOf(key: string, limitClass: LimitClass, ip: string, nowMs: number): Chain {
    const chain = this.#chains.of(limitClass, ip);
    const { whole } = chain;
    if (whole === undefined) return chain;
    let isFew = true;
    for (const { name, requests } of whole.networks)
      if (requests === 0 || this.#own.take(key + name, nowMs).count > requests) isFew = false;
    return isFew ? whole.chain : chain;
  }

  /** Handles a key that Redis does not know or did not answer for. */
  async #checkWithPostgres(key: string, chain: Chain, ip: string, nowMs: number): Promise<KeyVerdict> {
    for (const pauseMs of LOOK_PAUSES_MS) {
      if (pauseMs > 0) await sleep(systemTime, pauseMs);
      const app = await this.#read(key, ip, nowMs);
      if (!app || 'rejection' in app) return app ?? { rejection: unauthorized(), charge: null };
      if (!isPaused(nowMs, this.#redisPausedUntilMs)) {
        const group = this.#questions.ask(key, chain, nowMs);
        const place = group.requests;
        const answer = await group.question.answer;
        if (answer)
          return verdictOf(answer.app, chain, (level) => windowAt(answer, group.at + 2 * level, place), nowMs);
      }
      if (isPaused(nowMs, this.#redisPausedUntilMs)) return this.#countHere(app, chain, nowMs);
      // The app is being changed: its snapshots are invalid until the change is committed. Look it up again.
    }
    return { rejection: unavailable(undefined, 1), charge: null };
  }

  /** Counts in this process while Redis is unavailable. */
  #countHere(app: AppSnapshot, chain: Chain, nowMs: number): KeyVerdict {
    const take = (_: number, level: Level) => this.#windows.take(levelKey(level, app.app_id), nowMs, level.windowMs);
    return verdictOf(app, chain, take, nowMs);
  }

  async #query({ key, groups, requests, askedMs }: Question): Promise<Answered | null> {
    // The previous query may have failed in the meantime.
    if (isPaused(this.#parts.clock(), this.#redisPausedUntilMs)) return null;
    const ask = (appId: string) => {
      const keys: string[] = [snapshotKey(this.#hash(key)), versionKey(appId)];
      const values: (string | number)[] = [appId, askedMs];
      for (const group of groups.values()) {
        values.push(group.requests, group.chain.levels.length);
        for (const level of group.chain.levels) {
          keys.push(levelKey(level, appId));
          values.push(level.limit, level.windowMs);
        }
      }
      return this.#check(keys, values);
    };
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
    return { app: this.#parse(key, answer[0]), windows: answer[1] };
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

/** The window of one level after the request at a place in its group was counted. */
function windowAt({ windows }: Answered, at: number, place: number): Window {
  return { count: Number(windows[at]) + place, resetMs: Number(windows[at + 1]) };
}

/** The requests that a level admits are the first of their group, so their places are the same at the next level. */
function verdictOf(
  app: AppSnapshot,
  { levels, shown }: Chain,
  take: (at: number, level: Level) => Window,
  nowMs: number,
): KeyVerdict {
  let charge: Charge | null = null;
  for (const [at, level] of levels.entries()) {
    const window = take(at, level);
    if (at !== shown && window.count <= level.limit) continue;
    charge = chargeOf(level.limit, window, nowMs, level.windowMs);
    if (charge.rejection) return { rejection: charge.rejection, charge };
  }
  if (!charge) throw new Error('a chain of limits shows none of its levels');
  return { app, charge };
}
