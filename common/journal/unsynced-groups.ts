/** Groups of frames that are written but not synced, and their waiters. */

/** Notified of the outcome of a record. An existing object implements it, so that a request allocates no closure. */
export interface Waiter {
  committed(): void;
  refused(): void;
}

/** Maximum bytes kept for a rewrite; beyond it the oldest groups are dropped. */
const bytesMaxDefault = 16_777_216;

interface Group {
  readonly seq: number;
  readonly bytes: Buffer;
}

export class UnsyncedGroups {
  readonly #bytesMax: number;
  #groups: Group[] = [];
  #bytes = 0;
  #waiting: { readonly seq: number; readonly waiters: readonly Waiter[] }[] = [];
  #seq = 0;
  #givenUpTo = 0;

  constructor(bytesMax = bytesMaxDefault) {
    this.#bytesMax = bytesMax;
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
    return this.#groups.filter((group) => group.seq > this.#givenUpTo).map((group) => group.bytes);
  }

  /**
   * @param bytes copied, because the caller's buffer is used again.
   * @param waiters those that are answered only once the group is synced.
   */
  add(bytes: Buffer, waiters: readonly Waiter[]): void {
    const seq = ++this.#seq;
    this.#groups.push({ seq, bytes: Buffer.from(bytes) });
    this.#bytes += bytes.length;
    while (this.#bytes > this.#bytesMax && this.#groups.length > 1) this.#dropOldest();
    if (waiters.length > 0) this.#waiting.push({ seq, waiters });
  }

  /** All groups up to a number are synced, or given up. */
  settle(seq: number, isSynced: boolean): void {
    while (this.#groups[0] !== undefined && this.#groups[0].seq <= seq) this.#dropOldest();
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

  #dropOldest(): void {
    this.#bytes -= this.#groups.shift()?.bytes.length ?? 0;
  }
}
