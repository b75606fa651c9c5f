/** Samples the records of a second evenly, based on the number of records in the previous second. */

/** The counts of a second, if not all of its records were shown. */
export interface SampledSecond {
  readonly seen: number;
  readonly sent: number;
}

export class Sampler {
  readonly #perSecondMax: number;
  #second = Number.NEGATIVE_INFINITY;
  #seen = 0;
  #sent = 0;
  /** Records in the previous second; every `#before / #perSecondMax`th is taken. */
  #before = 0;
  #credit = 0;

  constructor(perSecondMax: number) {
    this.#perSecondMax = perSecondMax;
  }

  /** Ends the current second if it is over at this time. */
  endSecond(nowMs: number): SampledSecond | null {
    const second = Math.floor(nowMs / 1_000);
    if (second <= this.#second) return null;
    const [seen, sent] = [this.#seen, this.#sent];
    this.#second = second;
    this.#before = Math.max(seen, this.#perSecondMax);
    this.#seen = this.#sent = this.#credit = 0;
    return seen > sent ? { seen, sent } : null;
  }

  /** Whether to show the next record of the current second. */
  takes(): boolean {
    this.#seen++;
    this.#credit += this.#perSecondMax;
    if (this.#credit < this.#before || this.#sent >= this.#perSecondMax) return false;
    this.#credit -= this.#before;
    this.#sent++;
    return true;
  }
}
