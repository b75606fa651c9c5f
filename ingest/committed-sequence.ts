/**
 * The sequence of the stream up to which everything of a partition is committed, so that the log can be purged up to there.
 * Frames are committed in the order in which they were taken, so counting both is enough: a message is committed once as many
 * frames are committed as had been taken when it was delivered. Sequences go back when the server loses its tail, so the reader
 * starts over after each doubt, and nothing is known until then.
 */
export class CommittedSequence {
  /** Sequences that were reached, each with how many frames had been taken by then; never two with the same number. */
  readonly #reached: { sequence: number; readonly taken: number }[] = [];
  #sequence: number | undefined;

  /** The stream may be another one, or have lost its tail. */
  forget(): void {
    this.#reached.length = 0;
    this.#sequence = undefined;
  }

  /** Every message up to this sequence was delivered, or was committed before the reading began. */
  reached(sequence: number, taken: number): void {
    const last = this.#reached.at(-1);
    if (last !== undefined && last.taken === taken) last.sequence = sequence;
    else this.#reached.push({ sequence, taken });
  }

  /** @param committed how many of the frames that were taken are committed. */
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
