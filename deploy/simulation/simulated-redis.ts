/**
 * The simulated Redis: strings and sorted sets that expire, and the effects of the three scripts of `RecentClicks`. It
 * loses everything when it dies, evicts keys at random, and may be full.
 */
import type { Redis } from '#common/stores/redis.ts';
import type { Machine } from './machine.ts';
import type { Program } from './program.ts';
import { CallableServer, type Caller, call } from './server-call.ts';

const timeoutMs = 1_000;
const perAddressMax = 100;
const idLength = 30;

interface Entry {
  readonly value: string | Map<string, number>;
  expiresAt: number;
}

function replyError(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' });
}

export class SimulatedRedis extends CallableServer {
  readonly hits = { crashed: 0, evicted: 0, refused: 0 };
  /** Rejects writes. */
  isFull = false;
  #entries = new Map<string, Entry>();
  readonly #evicted = new Set<string>();

  crash(): void {
    if (!this.isUp) return;
    this.isUp = false;
    this.hits.crashed++;
    this.#entries = new Map();
  }

  /** @param share of all keys that are evicted. */
  evict(share: number): void {
    for (const key of [...this.#entries.keys()]) {
      if (this.scheduler.random.next() >= share) continue;
      this.#entries.delete(key);
      this.#evicted.add(key);
      this.hits.evicted++;
    }
  }

  hasOrEvicted(key: string): boolean {
    return this.#get(key) !== undefined || this.#evicted.has(key);
  }

  /** The interface of `Redis` with its commands, as far as the simulated programs use it. */
  of(program: Program, machine: Machine): Redis {
    const unavailable = (why: string) => new Error(`Redis: ${why}`);
    const caller: Caller = { program, link: machine.link, timeoutMs, unavailable };
    const ask = <T>(question: () => T) => call(caller, this, question);
    const commands = {
      get: (key: string) => ask(() => this.#text(key)),
      mget: (keys: readonly string[]) => ask(() => keys.map((key) => this.#text(key))),
      set: (key: string, value: string | number, ...options: readonly (string | number)[]) =>
        ask(() => this.#set(key, String(value), options)),
    };
    const scripts = { put: this.#put, gather: this.#gather, copy: this.#copy };
    const redis = {
      commands,
      isConnected: () => this.isUp,
      script: (text: string) => {
        const run = text.includes('ZADD') ? scripts.put : text.includes('ZREVRANGE') ? scripts.gather : scripts.copy;
        return (keys: readonly string[], args: readonly (string | number)[]) => ask(() => run.call(this, keys, args));
      },
    };
    return redis as unknown as Redis;
  }

  #get(key: string): Entry | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.expiresAt > this.scheduler.now) return entry;
    this.#entries.delete(key);
    return undefined;
  }

  #text(key: string): string | null {
    const value = this.#get(key)?.value;
    return typeof value === 'string' ? value : null;
  }

  #write(key: string, value: Entry['value'], ttlMs = Number.POSITIVE_INFINITY): void {
    if (this.isFull) {
      this.hits.refused++;
      throw replyError("OOM command not allowed when used memory > 'maxmemory'.");
    }
    this.#entries.set(key, { value, expiresAt: this.scheduler.now + ttlMs });
  }

  #set(key: string, value: string, options: readonly (string | number)[]): 'OK' | null {
    if (options[0] === 'XX' && this.#get(key) === undefined) return null;
    this.#write(key, value, options[0] === 'PX' ? Number(options[1]) : undefined);
    return 'OK';
  }

  #put(_keys: readonly string[], args: readonly (string | number)[]): number {
    for (let at = 0; at < args.length; at += 7) {
      const [click = '', json = '', ttl = 0, address = '', member = '', addressTtl = 0, time = 0] = args.slice(at);
      this.#write(String(click), String(json), Number(ttl));
      if (address === '') continue;
      const known = this.#get(String(address))?.value;
      const members = new Map(known instanceof Map ? known : []).set(String(member), Number(time));
      const newest = [...members].sort(([, one], [, other]) => other - one).slice(0, perAddressMax);
      this.#write(String(address), new Map(newest), Number(addressTtl));
    }
    return 1;
  }

  #gather([answer = '', address = '', ...clicks]: readonly string[], args: readonly (string | number)[]): unknown {
    const known = this.#get(address)?.value;
    const [isNear, whole = 0] = args;
    let left = Number(whole);
    const members = isNear === '1' && known instanceof Map ? [...known] : [];
    const near = members
      .sort(([, one], [, other]) => other - one)
      .flatMap(([member]) => {
        const id = member.slice(0, idLength);
        const owner = this.#text(`claim:${id}`) ?? '';
        return [member, owner, owner === '' && left-- > 0 ? (this.#text(`click:${id}`) ?? '') : ''];
      });
    const named = clicks.flatMap((key) => [this.#text(key) ?? '', this.#text(`claim:${key.slice(6)}`) ?? '']);
    return [this.#text(answer) ?? '', near, named];
  }

  #copy(_keys: readonly string[], args: readonly (string | number)[]): number {
    for (let at = 0; at < args.length; at += 6) {
      const [claim = '', byId = '', byDevice = '', owner = '', answer = '', ttl = 0] = args.slice(at, at + 6);
      this.#write(String(claim), String(owner), Number(ttl));
      for (const key of [byId, byDevice]) if (key !== '') this.#write(String(key), String(answer), Number(ttl));
    }
    return 1;
  }
}
