/**
 * Computes the number of a visitor: the same person on the same app and day has the same number. Without the day's
 * salt, a number reveals neither the person nor that two apps have the same visitor.
 *
 * App, address and agent are each hashed to 64 bits by SHA-256 with the salt; these are cached while in use. The three
 * are then mixed under a key of the day by HalfSipHash-2-4 (Aumasson and Bernstein; github.com/veorq/SipHash), which
 * costs a tenth of a SHA-256 per click. 52 bits are kept, which a double represents exactly.
 */
import { hash } from 'node:crypto';
import { type ByteText, uint32Bytes } from '#clickhouse/row-binary.ts';
import { BoundedMap } from '#common/bounded-map.ts';
import { DAY_MS } from '#common/durations.ts';

/** Salts by UTC day, loaded before clicks of the day are enriched. */
export type DailySalts = (day: number) => string;

const highBits = 0xfffff;
const entryBytes = 120;
const appsMax = 20_000;
const agentsMax = 50_000;
const bytesMax = 64_000_000;

export function dayOf(epochMs: number): number {
  return Math.floor(epochMs / DAY_MS);
}

/** A 64-bit hash of a text with a day's salt, in two halves. */
export interface Words {
  readonly day: number;
  readonly low: number;
  readonly high: number;
  readonly bytes: number;
  isUsed: boolean;
}

function wordsOf(day: number, salt: string, what: 'app' | 'ip' | 'agent' | 'key', text: string): Words {
  const digest = hash('sha256', `${salt}\n${what}\n${text}`, 'buffer');
  const bytes = entryBytes + 2 * text.length;
  return { day, low: digest.readInt32LE(0), high: digest.readInt32LE(4), bytes, isUsed: false };
}

/** HalfSipHash over whole words; the state is four 32-bit numbers. */
class WordHash {
  low = 0;
  high = 0;
  #v0 = 0;
  #v1 = 0;
  #v2 = 0;
  #v3 = 0;

  begin(key: Words): void {
    this.#v0 = key.low;
    this.#v1 = key.high ^ 0xee;
    this.#v2 = 0x6c796765 ^ key.low;
    this.#v3 = 0x74656462 ^ key.high;
  }

  add({ low, high }: Words): void {
    this.#word(low);
    this.#word(high);
  }

  /** @param bytes how many were added; the algorithm encodes them in the last word. */
  end(bytes: number): void {
    this.#word(bytes << 24);
    this.#v2 ^= 0xee;
    this.#rounds(4);
    this.low = (this.#v1 ^ this.#v3) >>> 0;
    this.#v1 ^= 0xdd;
    this.#rounds(4);
    this.high = (this.#v1 ^ this.#v3) >>> 0;
  }

  #word(word: number): void {
    this.#v3 ^= word;
    this.#rounds(2);
    this.#v0 ^= word;
  }

  #rounds(count: number): void {
    let [v0, v1, v2, v3] = [this.#v0, this.#v1, this.#v2, this.#v3];
    for (let round = 0; round < count; round++) {
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
    }
    this.#v0 = v0;
    this.#v1 = v1;
    this.#v2 = v2;
    this.#v3 = v3;
  }
}

/** A text, for example a canonical address, and its latest hash. */
export interface HashedText {
  readonly text: string;
  words: Words | undefined;
}

/** Bytes of three words of 64 bits. */
const mixedBytes = 24;

export class Visitors {
  readonly #salts: DailySalts;
  readonly #apps = new BoundedMap<Words>(appsMax, bytesMax);
  readonly #agents = new BoundedMap<Words>(agentsMax, bytesMax);
  readonly #hash = new WordHash();
  #key: Words | undefined;

  constructor(salts: DailySalts) {
    this.#salts = salts;
  }

  /** The visitor's number, encoded. */
  encoded(day: number, appId: string, address: HashedText, userAgent: string): ByteText {
    const app = this.#kept(this.#apps, day, 'app', appId);
    return this.#mixed(day, app, this.#wordsOf(day, 'ip', address), this.#kept(this.#agents, day, 'agent', userAgent));
  }

  /** The same, for texts that the caller caches with their hashes. */
  encodedOf(day: number, app: HashedText, address: HashedText, agent: HashedText): ByteText {
    const words = this.#wordsOf(day, 'app', app);
    return this.#mixed(day, words, this.#wordsOf(day, 'ip', address), this.#wordsOf(day, 'agent', agent));
  }

  #wordsOf(day: number, what: 'app' | 'ip' | 'agent', from: HashedText): Words {
    if (from.words?.day !== day) from.words = wordsOf(day, this.#salts(day), what, from.text);
    return from.words;
  }

  #mixed(day: number, app: Words, address: Words, agent: Words): ByteText {
    if (this.#key?.day !== day) this.#key = wordsOf(day, this.#salts(day), 'key', '');
    const mixed = this.#hash;
    mixed.begin(this.#key);
    mixed.add(app);
    mixed.add(address);
    mixed.add(agent);
    mixed.end(mixedBytes);
    return uint32Bytes(mixed.low) + uint32Bytes(mixed.high & highBits);
  }

  #kept(known: BoundedMap<Words>, day: number, what: 'app' | 'agent', text: string): Words {
    let words = known.get(text);
    if (words === undefined || words.day !== day) {
      words = wordsOf(day, this.#salts(day), what, text);
      known.set(text, words);
    }
    return words;
  }
}
