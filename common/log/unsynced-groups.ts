/** Groups of frames that were written and not synced, and who waits for that. */

/** Who is told what became of a record: an object that is there anyway, so that a request costs no closure. */
export interface Waiter {
  committed(): void;
  refused(): void;
}

/** What is kept to be written again; beyond it the oldest is forgotten. Memory is taken as it is first used. */
const ringBytes = 16_777_216;

interface Group {
  readonly seq: number;
  readonly from: number;
  readonly to: number;
}

/** The bytes of the groups lie in one ring, each in one piece, so that keeping them makes no garbage. */
export class UnsyncedGroups {
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

  /** All of the producer's that may have to be written again, oldest first. */
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

  /** The producer is given up. A sync may still save what it wrote, but its frames have no place in the journal of the next one. */
  giveUp(): void {
    this.#givenUpTo = this.#seq;
  }

  /** A sync has failed: what was written by producers that are given up can't be written again. */
  refuseGivenUp(): void {
    this.settle(this.#givenUpTo, false);
  }

  /** Forgets groups from the oldest on, for as long as they are among those. */
  #forget(isAmong: (group: Group) => boolean): void {
    let count = 0;
    for (const group of this.#groups) {
      if (!isAmong(group)) break;
      count++;
    }
    if (count > 0) this.#groups.splice(0, count);
  }
}
