/** Groups of frames that are written but not synced, and their waiters. */

/** Notified of the outcome of a record. An existing object implements it, so that a request allocates no closure. */
export interface Waiter {
  committed(): void;
  refused(): void;
}

/** Maximum bytes kept for a rewrite; beyond it the oldest groups are dropped. */
const bytesMaxDefault = 16_777_216;

/** Copies share chunks of this size: an allocation for each group costs more than its copy. A larger group has a chunk of its own. */
const chunkBytes = 1_048_576;

interface Group {
  readonly seq: number;
  readonly chunk: Buffer;
  readonly from: number;
  readonly to: number;
}

export class UnsyncedGroups {
  readonly #bytesMax: number;
  #groups: Group[] = [];
  #bytes = 0;
  #waiting: { readonly seq: number; readonly waiters: readonly Waiter[] }[] = [];
  #seq = 0;
  #givenUpTo = 0;
  #chunk = Buffer.alloc(0);
  #chunkUsed = 0;
  /** The chunk before, which is used again once no group is in it. */
  #lastChunk = Buffer.alloc(0);

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
    return this.#groups
      .filter((group) => group.seq > this.#givenUpTo)
      .map(({ chunk, from, to }) => chunk.subarray(from, to));
  }

  /**
   * @param bytes copied, because the caller's buffer is used again.
   * @param waiters those that are answered only once the group is synced.
   */
  add(bytes: Buffer, waiters: readonly Waiter[]): void {
    const seq = ++this.#seq;
    const { chunk, from, to } = this.#copied(bytes);
    this.#groups.push({ seq, chunk, from, to });
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
    const group = this.#groups.shift();
    if (group !== undefined) this.#bytes -= group.to - group.from;
  }

  #copied(bytes: Buffer): Omit<Group, 'seq'> {
    if (bytes.length > chunkBytes) return { chunk: Buffer.from(bytes), from: 0, to: bytes.length };
    if (this.#groups.length === 0) this.#chunkUsed = 0;
    if (this.#chunk.length - this.#chunkUsed < bytes.length) this.#nextChunk();
    const from = this.#chunkUsed;
    this.#chunkUsed += bytes.length;
    this.#chunk.set(bytes, from);
    return { chunk: this.#chunk, from, to: this.#chunkUsed };
  }

  #nextChunk(): void {
    const last = this.#lastChunk;
    const isFree = last.length > 0 && !this.#groups.some(({ chunk }) => chunk === last);
    this.#lastChunk = this.#chunk;
    this.#chunk = isFree ? last : Buffer.allocUnsafeSlow(chunkBytes);
    this.#chunkUsed = 0;
  }
}
