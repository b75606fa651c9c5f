/** A file that fills a small disk. */
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const chunk = Buffer.alloc(65_536);

export class Ballast {
  readonly #file: string;

  constructor(folder: string) {
    this.#file = join(folder, '.ballast');
  }

  /** Continues where it stopped, so it may be called again after another file was deleted. @returns bytes added. */
  fill(): number {
    const file = openSync(this.#file, 'a');
    let bytes = 0;
    try {
      for (let size = chunk.length; size >= 512; ) {
        try {
          bytes += writeSync(file, chunk, 0, size);
        } catch {
          size = Math.floor(size / 2);
        }
      }
    } finally {
      closeSync(file);
    }
    return bytes;
  }

  remove(): void {
    rmSync(this.#file, { force: true });
  }
}
