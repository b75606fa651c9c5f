/** Bytes in a slot's folder. The publisher deletes committed segments, so the size is read from disk. */
import { join } from 'node:path';
import type { Disk } from './disk.ts';

export class FolderSize {
  readonly #disk: Disk;
  readonly #folder: string;
  #measured = 0;
  #since = 0;
  #isMeasuring = false;

  constructor(disk: Disk, folder: string) {
    this.#disk = disk;
    this.#folder = folder;
  }

  get bytes(): number {
    return this.#measured + this.#since;
  }

  /** Adds what was written since the last measurement. */
  add(bytes: number): void {
    this.#since += bytes;
  }

  async measure(): Promise<void> {
    if (this.#isMeasuring) return;
    this.#isMeasuring = true;
    const before = this.#since;
    let bytes = 0;
    for (const producer of await this.#disk.namesLater(this.#folder)) {
      const folder = join(this.#folder, producer);
      for (const name of await this.#disk.namesLater(folder)) {
        bytes += await this.#disk.bytesOfLater(join(folder, name));
      }
    }
    this.#measured = bytes;
    this.#since -= before;
    this.#isMeasuring = false;
  }
}
