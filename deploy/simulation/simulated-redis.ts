/**
 * The simulated Redis: strings that expire, and the effects of the scripts of `RecentClicks` and of its feed. It loses
 * everything when it dies, evicts keys at random, and may be full.
 */
import type { Redis } from '#common/stores/redis.ts';
import type { Machine } from './machine.ts';
import type { Program } from './program.ts';
import { CallableServer, type Caller, call } from './server-call.ts';

const timeoutMs = 1_000;

interface Entry {
  readonly value: string;
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

  /** Whether a key exists, or was evicted. */
  holdsOrEvicted(key: string, text: string): boolean {
    return (this.#text(key) ?? '').includes(text) || this.#evicted.has(key);
  }

  /** The part of the `Redis` interface that the simulated programs use. */
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
    const redis = {
      commands,
      isConnected: () => this.isUp,
      script: (text: string) => {
        type Run = (keys: readonly string[], args: readonly (string | number)[]) => unknown;
        const advance: Run = (keys, args) => this.#advance(keys, args);
        const run: Run = text.includes('begin')
          ? advance
          : (text.includes('linesMax') ? this.#add : this.#copy).bind(this);
        return (keys: readonly string[], args: readonly (string | number)[]) => ask(() => run(keys, args));
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
    return this.#get(key)?.value ?? null;
  }

  #write(key: string, value: string, ttlMs = Number.POSITIVE_INFINITY): void {
    if (this.isFull) {
      this.hits.refused++;
      throw replyError("OOM command not allowed when used memory > 'maxmemory'.");
    }
    this.#entries.set(key, { value, expiresAt: this.scheduler.now + ttlMs });
  }

  #set(key: string, value: string, options: readonly (string | number)[]): 'OK' | null {
    if (options[0] === 'XX' && this.#get(key) === undefined) return null;
    if (options[2] === 'NX' && this.#get(key) !== undefined) return null;
    this.#write(key, value, options[0] === 'PX' ? Number(options[1]) : undefined);
    return 'OK';
  }

  #add(keys: readonly string[], args: readonly (string | number)[]): number {
    const [bytesMax, linesMax] = [Number(args[0]), Number(args[1])];
    for (const [at, key] of keys.entries()) {
      const [ttl, lines] = [Number(args[2 * at + 2]), String(args[2 * at + 3])];
      const before = this.#text(key) ?? '';
      let text = before;
      for (const line of lines.split(/(?<=\n)/)) if (!text.includes(line)) text += line;
      if (text.length > bytesMax)
        text = text
          .split(/(?<=\n)/)
          .sort()
          .slice(-linesMax)
          .join('');
      if (text !== before) this.#write(key, text, ttl);
    }
    return 1;
  }

  #advance(keys: readonly string[], args: readonly (string | number)[]): string[] {
    const key = keys[0] ?? '';
    const [known, to, fresh] = args.map(String);
    const [begin = '', position = ''] = (this.#text(key) ?? '').split(' ');
    if (begin !== '' && !(begin === known && Number(position) < Number(to))) return [begin, position];
    const stored = begin === '' ? [String(fresh), String(fresh)] : [begin, String(to)];
    this.#write(key, stored.join(' '));
    return stored;
  }

  #copy(keys: readonly string[], args: readonly (string | number)[]): number {
    for (const [at, key] of keys.entries()) this.#write(key, String(args[2 * at]), Number(args[2 * at + 1]));
    return 1;
  }
}
