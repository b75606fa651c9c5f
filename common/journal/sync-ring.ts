/** Groups of frames that are written but not synced, and their waiters. */

/** Notified of the outcome of a record. An existing object implements it, so that a request allocates no closure. */
export interface Waiter {
  committed(): void;
  refused(): void;
}

/** Maximum bytes kept for a rewrite; beyond it the oldest group is dropped. Memory is allocated on first use. */
const ringBytes = 16_777_216;

interface Group {
  readonly seq: number;
  readonly from: number;
  readonly to: number;
}

/** The groups' bytes are in one ring buffer, each contiguous, so that keeping them creates no garbage. */
export class SyncRing {
  readonly #ring: Buffer;
  #groups: Group[] = [];
  #end = 0;
  #waiting: { readonly seq: number; readonly waiters: readonly Waiter[] }[] = [];
  #seq = 0;
  #givenUpTo = 0;

  constructor(bytesMax = ringBytes) {
    this.#ring = Buffer.allocUnsafeSlow(bytesMax);
  }

  /** The number of the group that was written last. */
  get seq(): number {
    return this.#seq;
  }

  get isEmpty(): boolean {
    return this.#groups.length === 0;
  }

  /** All groups of the producer that may have to be written again, oldest first. */
  get bytes(): Buffer[] {
    const own = this.#groups.filter((group) => group.seq > this.#givenUpTo);
    return own.map(({ from, to }) => Buffer.from(this.#ring.subarray(from, to)));
  }

  /** @param waiters those that are answered only once the group is synced. */
  add(bytes: Buffer, waiters: readonly Waiter[]): void {
    const seq = ++this.#seq;
    if (this.#groups.length === 0) this.#end = 0;
    if (this.#end + bytes.length > this.#ring.length) {
      this.#forget((group) => group.from >= this.#end);
      this.#end = 0;
    }
    const from = this.#end;
    const to = from + bytes.length;
    this.#forget((group) => group.from < to && group.to > from);
    bytes.copy(this.#ring, from);
    this.#groups.push({ seq, from, to });
    this.#end = to;
    if (waiters.length > 0) this.#waiting.push({ seq, waiters });
  }

  /** All groups up to a number are synced, or given up. */
  settle(seq: number, isSynced: boolean): void {
    this.#forget((group) => group.seq <= seq);
    while (this.#waiting[0] !== undefined && this.#waiting[0].seq <= seq) {
      for (const waiter of this.#waiting.shift()?.waiters ?? []) {
        if (isSynced) waiter.committed();
        else waiter.refused();
      }
    }
  }

  /**
   * The producer is abandoned. A sync may still save its frames, but they must not enter the next producer's journal.
   */
  giveUp(): void {
    this.#givenUpTo = this.#seq;
  }

  /** Whether groups of an abandoned producer are not synced yet. */
  get hasGivenUp(): boolean {
    return (this.#groups[0]?.seq ?? Number.POSITIVE_INFINITY) <= this.#givenUpTo;
  }

  /** A sync has failed: what abandoned producers wrote can't be written again. */
  refuseGivenUp(): void {
    this.settle(this.#givenUpTo, false);
  }

  /** Drops groups from the oldest on, for as long as the condition holds. */
  #forget(isAmong: (group: Group) => boolean): void {
    let count = 0;
    for (const group of this.#groups) {
      if (!isAmong(group)) break;
      count++;
    }
    if (count > 0) this.#groups.splice(0, count);
  }
}
