/** A segment that was deleted while it was written to, on its way into a new file. A disk that is full lets it wait, and it goes on later. */
import type { Disk } from './disk.ts';
import { makeFolder, Segment } from './segment.ts';

export class SegmentCopy {
  readonly from: Segment;
  readonly folder: string;
  readonly #disk: Disk;
  #into: Segment | undefined;
  #no: number;
  #copied = 0;

  /** @param folder of its producer. */
  constructor(disk: Disk, folder: string, from: Segment) {
    this.#disk = disk;
    this.folder = folder;
    this.from = from;
    this.#no = from.no;
  }

  /** Copies what is left. @throws what the file system says; what was copied until then counts. */
  proceed(): Segment {
    if (this.#into?.isDeleted === true) this.giveUp();
    if (this.#into === undefined) {
      makeFolder(this.#disk, this.folder);
      // Each try has a number of its own: a file may be there although it could not be made for good.
      this.#into = Segment.create(this.#disk, this.folder, ++this.#no);
      this.#copied = 0;
    }
    for (const bytes of this.from.contents(this.#copied)) {
      this.#into.append(bytes);
      this.#copied += bytes.length;
    }
    return this.#into;
  }

  /** Lets go of the new file. */
  giveUp(): void {
    this.#into?.close();
    this.#into = undefined;
  }
}
