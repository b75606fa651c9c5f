/** Bytes in a slot's folder. The publisher deletes what the sink has committed, so how much is left is looked up, not told. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

export class FolderSize {
  readonly #folder: string;
  #measured = 0;
  #since = 0;
  #isMeasuring = false;

  constructor(folder: string) {
    this.#folder = folder;
  }

  get bytes(): number {
    return this.#measured + this.#since;
  }

  /** Counts what was written since it was measured. */
  add(bytes: number): void {
    this.#since += bytes;
  }

  async measure(): Promise<void> {
    if (this.#isMeasuring) return;
    this.#isMeasuring = true;
    const before = this.#since;
    let bytes = 0;
    for (const producer of await readdir(this.#folder).catch(() => [])) {
      const folder = join(this.#folder, producer);
      for (const name of await readdir(folder).catch(() => [])) {
        bytes += (await stat(join(folder, name)).catch(() => undefined))?.size ?? 0;
      }
    }
    this.#measured = bytes;
    this.#since -= before;
    this.#isMeasuring = false;
  }
}
