/**
 * Copies a segment that was deleted while it was being written into a new file. If the disk is full, it continues
 * later.
 */
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

  /** Copies what is left. @throws the file system's error; what was copied until then counts. */
  proceed(): Segment {
    if (this.#into?.isDeleted === true) this.giveUp();
    if (this.#into === undefined) {
      makeFolder(this.#disk, this.folder);
      // Each attempt has its own number: a failed attempt may have left a file whose name was not synced.
      this.#into = Segment.create(this.#disk, this.folder, ++this.#no);
      this.#copied = 0;
    }
    for (const bytes of this.from.contents(this.#copied)) {
      this.#into.append(bytes);
      this.#copied += bytes.length;
    }
    return this.#into;
  }

  /** Abandons the new file. */
  giveUp(): void {
    this.#into?.close();
    this.#into = undefined;
  }
}

/** Deleted segments that wait for room on the disk; each keeps its file open, and so its disk space, until then. */
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

  /** Tries each once more. @returns the segments that must be synced and closed, old and new, and how many failed. */
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
      `segment ${copy.from.no} of ${copy.folder} was deleted and could not be written again: its ${copy.from.bytes} bytes are lost unless they are already stored`,
    );
  }
}
