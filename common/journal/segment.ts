/** One file of a journal: appended to by one process, once, and never reopened for writing. */
import { dirname, join } from 'node:path';
import type { Disk } from './disk.ts';

export function segmentName(no: number): string {
  return `${String(no).padStart(8, '0')}.seg`;
}

const pieceBytes = 1_048_576;

export const segmentShape = /^\d{8}\.seg$/;

/** Creates a folder whose name survives a power loss, including its parents. */
export function makeFolder(disk: Disk, folder: string): void {
  if (!disk.makeFolder(folder)) return;
  disk.syncFolder(dirname(folder));
  disk.syncFolder(dirname(dirname(folder)));
}

/** What an edge writes within some turns. */
const roomBytes = 65_536;

/**
 * Tries whether there is room for data: a full disk still has room for an empty segment. Removes what a killed process left.
 * @throws the file system's error if there is none.
 */
export function requireRoom(disk: Disk, folder: string, isTried: boolean): void {
  const path = join(folder, 'room');
  disk.removeFile(path);
  if (!isTried) return;
  const file = disk.create(path);
  try {
    for (let written = 0; written < roomBytes; ) written += disk.write(file, Buffer.alloc(roomBytes), written);
  } finally {
    disk.close(file);
    disk.removeFile(path);
  }
}

export class Segment {
  readonly no: number;
  readonly #disk: Disk;
  readonly #file: number;
  #bytes = 0;

  private constructor(no: number, disk: Disk, file: number) {
    this.no = no;
    this.#disk = disk;
    this.#file = file;
  }

  /** @throws the file system's error: full, read-only, no more file descriptors. */
  static create(disk: Disk, folder: string, no: number): Segment {
    const file = disk.create(join(folder, segmentName(no)));
    try {
      disk.syncFolder(folder);
    } catch (error) {
      disk.close(file);
      throw error;
    }
    return new Segment(no, disk, file);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** @throws the file system's error; a partial write is truncated again, as far as that is possible. */
  append(bytes: Buffer): void {
    let written = 0;
    try {
      while (written < bytes.length) written += this.#disk.write(this.#file, bytes, written);
    } catch (error) {
      try {
        this.#disk.truncate(this.#file, this.#bytes);
      } catch {
        // The reader drops an incomplete tail, and frames that it has already seen.
      }
      throw error;
    }
    this.#bytes += written;
  }

  /** Whether its file was deleted: records appended to it would be lost. */
  get isDeleted(): boolean {
    return this.#disk.namesOf(this.#file) === 0;
  }

  /** What was appended after the first `from` bytes, in pieces that the next one overwrites. */
  *contents(from = 0): Iterable<Buffer> {
    const piece = Buffer.allocUnsafe(Math.min(pieceBytes, this.#bytes - from));
    for (let at = from; at < this.#bytes; ) {
      const read = this.#disk.read(this.#file, piece, at);
      const bytes = Math.min(read, this.#bytes - at);
      if (bytes === 0) return;
      yield piece.subarray(0, bytes);
      at += bytes;
    }
  }

  sync(): Promise<void> {
    return this.#disk.sync(this.#file);
  }

  close(): void {
    this.#disk.close(this.#file);
  }
}
