/**
 * Tests whether an id may have been added during the last day: one Bloom filter per hour, in blocks that are added as
 * they fill. "No" is certain for ids received since `keptFromMs`; "maybe" requires a lookup. When all blocks are in
 * use, the newest is overfilled, which makes "maybe" more frequent and never makes a "no" wrong.
 * Sizing: 20 bits and 10 hashes per id give 1 wrong "maybe" in 15,000 per block (Bloom 1970).
 */
import { HOUR_MS } from '#common/durations.ts';

/** A day, the current hour, and six hours by which records may be late without requiring lookups. */
const HOURS_KEPT = 31;
const IDS_PER_BLOCK = 50_000;
const BITS = 1 << 20;
const HASHES = 10;
/** Of 128 KiB each: 68 MB, or 20 million ids a day, before wrong answers become frequent. */
const BLOCKS_MAX = 520;

interface Block {
  readonly bits: Uint32Array;
  ids: number;
}

export class IdFilter {
  readonly #hours = new Map<number, Block[]>();
  #blocks = 0;
  #newestHour = 0;
  #first = 0;
  #second = 0;

  /** Epoch milliseconds. Ids received earlier have been dropped. Never decreases. */
  get keptFromMs(): number {
    return (this.#newestHour - HOURS_KEPT + 1) * HOUR_MS;
  }

  /** Whether the id may have been added. */
  mayHave(appId: string, id: string): boolean {
    this.#hash(appId, id);
    for (const blocks of this.#hours.values()) {
      for (const block of blocks) if (this.#isIn(block)) return true;
    }
    return false;
  }

  /** `timeMs` is the time of receipt, which determines when the id is dropped. Adding an id again takes no space. */
  add(appId: string, id: string, timeMs: number): void {
    const hour = Math.floor(timeMs / HOUR_MS);
    if (hour > this.#newestHour) this.#forget(hour);
    if (timeMs < this.keptFromMs) return;
    this.#hash(appId, id);
    if (this.#hours.get(hour)?.some((one) => this.#isIn(one))) return;
    const block = this.#blockOf(hour);
    block.ids++;
    for (let n = 0; n < HASHES; n++) {
      const bit = (this.#first + Math.imul(n, this.#second)) & (BITS - 1);
      block.bits[bit >>> 5] = (block.bits[bit >>> 5] ?? 0) | (1 << (bit & 31));
    }
  }

  #isIn(block: Block): boolean {
    for (let n = 0; n < HASHES; n++) {
      const bit = (this.#first + Math.imul(n, this.#second)) & (BITS - 1);
      if (((block.bits[bit >>> 5] ?? 0) & (1 << (bit & 31))) === 0) return false;
    }
    return true;
  }

  #blockOf(hour: number): Block {
    let blocks = this.#hours.get(hour);
    if (!blocks) {
      blocks = [];
      this.#hours.set(hour, blocks);
    }
    const last = blocks.at(-1);
    if (last && (last.ids < IDS_PER_BLOCK || this.#blocks >= BLOCKS_MAX)) return last;
    const block = { bits: new Uint32Array(BITS / 32), ids: 0 };
    blocks.push(block);
    this.#blocks++;
    return block;
  }

  #forget(newestHour: number): void {
    this.#newestHour = newestHour;
    for (const [hour, blocks] of this.#hours) {
      if (hour > newestHour - HOURS_KEPT) continue;
      this.#blocks -= blocks.length;
      this.#hours.delete(hour);
    }
  }

  /** Two hashes, from which the others are derived (Kirsch and Mitzenmacher 2006). */
  #hash(appId: string, id: string): void {
    let a = 0x811c9dc5;
    let b = 0x9747b28c;
    for (const text of [appId, id]) {
      for (let i = 0; i < text.length; i++) {
        const c = text.charCodeAt(i);
        a = Math.imul(a ^ c, 0x01000193);
        b = Math.imul(b + c, 0x5bd1e995);
        b ^= b >>> 15;
      }
    }
    a ^= a >>> 16;
    this.#first = Math.imul(a, 0x85ebca6b) >>> 0;
    this.#second = (b | 1) >>> 0;
  }
}
