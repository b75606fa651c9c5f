/**
 * Which look-ups of a batch found something, one bit for each in the order in which they are asked. Stores know more with
 * every second; a batch that is formed again after a crash takes what it took before, so that its bytes are the same.
 */
export class Findings {
  readonly #before: Buffer | undefined;
  readonly #bits: number[] = [];
  #asked = 0;

  /** @param before what `text` said when the batch was formed first. */
  constructor(before?: string) {
    this.#before = before === undefined ? undefined : Buffer.from(before, 'base64');
  }

  /** Whether a look-up counts as found: as it did before, else as it does now. */
  keep(isFound: boolean): boolean {
    const at = this.#asked >>> 3;
    const bit = 1 << (this.#asked++ & 7);
    const counts = this.#before === undefined ? isFound : ((this.#before[at] ?? 0) & bit) !== 0;
    this.#bits[at] = (this.#bits[at] ?? 0) | (counts ? bit : 0);
    return counts;
  }

  /** Base64; empty when nothing was asked. */
  get text(): string {
    return Buffer.from(this.#bits).toString('base64');
  }
}
