/**
 * Tracks the stream sequence up to which everything of a partition is committed, so that the log can be purged up to
 * it; and likewise a time, for publishers. Frames are committed in the order in which they were taken, so counting both is enough: a message is committed
 * once as many frames are committed as had been taken when it was delivered. Sequences go back if the server loses its
 * tail, so the reader restarts whenever it is in doubt, and the sequence is unknown until then.
 */
export class CommittedSequence {
  /** Reached sequences, each with the number of frames taken at that point; no two entries have the same number. */
  readonly #reached: { sequence: number; readonly taken: number }[] = [];
  #sequence: number | undefined;

  /** Call if the stream may have been replaced or may have lost its tail. */
  forget(): void {
    this.#reached.length = 0;
    this.#sequence = undefined;
  }

  /** Every message up to this sequence was delivered, or was committed before reading began. */
  reached(sequence: number, taken: number): void {
    const last = this.#reached.at(-1);
    if (last !== undefined && last.taken === taken) last.sequence = sequence;
    else this.#reached.push({ sequence, taken });
  }

  /** @param committed how many of the taken frames are committed. */
  at(committed: number): number | undefined {
    let known = 0;
    for (const { sequence, taken } of this.#reached) {
      if (taken > committed) break;
      this.#sequence = sequence;
      known++;
    }
    this.#reached.splice(0, known);
    return this.#sequence;
  }
}
