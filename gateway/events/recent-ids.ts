/**
 * Which ids of events this process has had journalled lately, so that a client's quick retry is told so. Only told: every
 * event goes into the log, and what counts once is decided behind it, exactly, for all processes and across crashes.
 *
 * An id is kept as 64 bits of a seeded hash in a table of fixed size: ids that were kept as texts would outlive their
 * request, and be most of what the garbage collector has to move.
 */
import { randomBytes } from 'node:crypto';

/** Few enough to stay in the processor's cache: a quick retry comes within moments. */
const idsMax = 32_768;
const perBucket = 2;
const buckets = idsMax / perBucket;

export class RecentIds {
  readonly #first = new Uint32Array(idsMax);
  readonly #second = new Uint32Array(idsMax);
  readonly #seedA = randomBytes(4).readUInt32LE();
  readonly #seedB = randomBytes(4).readUInt32LE();
  /** The hash of the id that was asked for last. */
  #a = 0;
  #b = 0;

  /** Notes an id of an app; the older of its bucket gives way. @returns whether it was there. */
  note(appId: string, eventId: string): boolean {
    const at = this.#find(appId, eventId);
    if (at >= 0) return true;
    const to = this.#bucket();
    this.#first[to + 1] = this.#first[to] ?? 0;
    this.#second[to + 1] = this.#second[to] ?? 0;
    this.#first[to] = this.#a;
    this.#second[to] = this.#b;
    return false;
  }

  /** It was not journalled after all. */
  forget(appId: string, eventId: string): void {
    const at = this.#find(appId, eventId);
    if (at < 0) return;
    this.#first[at] = 0;
    this.#second[at] = 0;
  }

  #bucket(): number {
    return (this.#b & (buckets - 1)) * perBucket;
  }

  /** Where an id stands, or -1. */
  #find(appId: string, eventId: string): number {
    this.#hash(appId, eventId);
    const from = this.#bucket();
    if (this.#first[from] === this.#a && this.#second[from] === this.#b) return from;
    return this.#first[from + 1] === this.#a && this.#second[from + 1] === this.#b ? from + 1 : -1;
  }

  /** Two sums over the characters, mixed at the end as in MurmurHash3 (its 32-bit finalizer). */
  #hash(appId: string, eventId: string): void {
    let a = this.#seedA ^ eventId.length;
    let b = this.#seedB;
    // The last characters of an id of ours are its random ones.
    for (let at = appId.length - 6; at < appId.length; at++) {
      const code = appId.charCodeAt(at);
      a = Math.imul(a ^ code, 0x9e3779b1);
      b = Math.imul(b ^ code, 0x5f356495);
    }
    for (let at = 0; at < eventId.length; at++) {
      const code = eventId.charCodeAt(at);
      a = Math.imul(a ^ code, 0x9e3779b1);
      b = Math.imul(b ^ code, 0x5f356495);
    }
    this.#a = mixed(a ^ (b >>> 15));
    this.#b = mixed(b ^ (a >>> 13));
  }
}

function mixed(value: number): number {
  let bits = value;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
