/**
 * Remembers which event ids this process journalled recently, so that a client's quick retry is reported as a
 * duplicate. This only affects the answer: every event goes into the log, and ingest decides exactly what counts once,
 * for all processes and across crashes.
 *
 * An id is stored as 64 bits of a seeded hash in a table of fixed size. Stored as strings, ids would outlive their
 * request and become most of what the garbage collector has to move.
 */
import { randomBytes } from 'node:crypto';

/** Small enough to stay in the processor's cache: quick retries arrive within moments. */
const idsMax = 32_768;
/**
 * Fits into one cache line of each of the two arrays. With smaller buckets, ids of a single batch would evict each
 * other by chance.
 */
const perBucket = 8;
const buckets = idsMax / perBucket;

export class RecentIds {
  readonly #first = new Uint32Array(idsMax);
  readonly #second = new Uint32Array(idsMax);
  /** The slot of each bucket that was written longest ago. */
  readonly #oldest = new Uint8Array(buckets);
  readonly #seedA = randomBytes(4).readUInt32LE();
  readonly #seedB = randomBytes(4).readUInt32LE();
  /** The hash of the last id that was looked up. */
  #a = 0;
  #b = 0;

  /** Notes an id of an app; the oldest id of its bucket is evicted. @returns whether it was already noted. */
  note(appId: string, eventId: string): boolean {
    const at = this.#find(appId, eventId);
    if (at >= 0) return true;
    const bucket = this.#b & (buckets - 1);
    const oldest = this.#oldest[bucket] ?? 0;
    this.#oldest[bucket] = (oldest + 1) % perBucket;
    const to = bucket * perBucket + oldest;
    this.#first[to] = this.#a;
    this.#second[to] = this.#b;
    return false;
  }

  /** Removes an id that was not journalled after all. */
  forget(appId: string, eventId: string): void {
    const at = this.#find(appId, eventId);
    if (at < 0) return;
    this.#first[at] = 0;
    this.#second[at] = 0;
  }

  /** The slot of an id, or -1. */
  #find(appId: string, eventId: string): number {
    this.#hash(appId, eventId);
    const from = (this.#b & (buckets - 1)) * perBucket;
    for (let slot = from; slot < from + perBucket; slot++) {
      if (this.#first[slot] === this.#a && this.#second[slot] === this.#b) return slot;
    }
    return -1;
  }

  /** Two sums over the characters, mixed at the end with MurmurHash3's 32-bit finalizer. */
  #hash(appId: string, eventId: string): void {
    let a = this.#seedA ^ eventId.length;
    let b = this.#seedB;
    // The last characters of an app id are its random ones.
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
