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

/** Deleted segments that wait for room on the disk; each keeps its file and its room until then. */
const copiesMax = 16;

export class WaitingCopies {
  readonly #log: (line: string) => void;
  #copies: SegmentCopy[] = [];

  constructor(log: (line: string) => void) {
    this.#log = log;
  }

  add(copy: SegmentCopy): void {
    this.#copies.push(copy);
    if (this.#copies.length > copiesMax) this.#abandon(this.#copies.shift());
  }

  /** Tries each once more. @returns the segments that are to be synced and closed, old and new, and how many failed. */
  proceed(): { written: Segment[]; failures: number } {
    const written: Segment[] = [];
    const waiting = this.#copies;
    this.#copies = [];
    for (const copy of waiting) {
      try {
        written.push(copy.proceed(), copy.from);
        this.#log(`the ${copy.from.bytes} bytes of segment ${copy.from.no} of ${copy.folder} are written again`);
      } catch {
        this.#copies.push(copy);
      }
    }
    return { written, failures: this.#copies.length };
  }

  abandonAll(): void {
    for (const copy of this.#copies.splice(0)) this.#abandon(copy);
  }

  #abandon(copy: SegmentCopy | undefined): void {
    if (copy === undefined) return;
    copy.giveUp();
    copy.from.close();
    this.#log(
      `segment ${copy.from.no} of ${copy.folder} was deleted and could not be written again: its ${copy.from.bytes} bytes are lost unless they are stored`,
    );
  }
}
