/** Groups of frames that were written and not synced, and who waits for that. */

/** Who is told what became of a record: an object that is there anyway, so that a request costs no closure. */
export interface Waiter {
  committed(): void;
  refused(): void;
}

/** What is kept to be written again; beyond it the oldest is forgotten. */
const bytesMax = 16_777_216;

export class UnsyncedGroups {
  #groups: { readonly seq: number; readonly bytes: Buffer }[] = [];
  #bytes = 0;
  #waiting: { readonly seq: number; readonly waiters: readonly Waiter[] }[] = [];
  #seq = 0;

  /** The number of the group that was written last. */
  get seq(): number {
    return this.#seq;
  }

  get isEmpty(): boolean {
    return this.#groups.length === 0;
  }

  /** All that may have to be written again, oldest first. */
  get bytes(): Buffer[] {
    return this.#groups.map((group) => group.bytes);
  }

  /** @param waiters those that are answered only once the group is synced. */
  add(bytes: Buffer, waiters: readonly Waiter[]): void {
    const seq = ++this.#seq;
    this.#groups.push({ seq, bytes: Buffer.from(bytes) });
    this.#bytes += bytes.length;
    while (this.#bytes > bytesMax) this.#bytes -= this.#groups.shift()?.bytes.length ?? 0;
    if (waiters.length > 0) this.#waiting.push({ seq, waiters });
  }

  /** All groups up to a number are synced, or given up. */
  settle(seq: number, isSynced: boolean): void {
    while (this.#groups[0] !== undefined && this.#groups[0].seq <= seq) {
      this.#bytes -= this.#groups.shift()?.bytes.length ?? 0;
    }
    while (this.#waiting[0] !== undefined && this.#waiting[0].seq <= seq) {
      for (const waiter of this.#waiting.shift()?.waiters ?? []) {
        if (isSynced) waiter.committed();
        else waiter.refused();
      }
    }
  }
}
