/** One file of a journal: appended to by one process, once, and never opened for writing again. */
import { closeSync, fdatasync, fsyncSync, ftruncateSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const fdatasyncAsync = promisify(fdatasync);

export function segmentName(no: number): string {
  return `${String(no).padStart(8, '0')}.seg`;
}

export const segmentShape = /^\d{8}\.seg$/;

/** Makes a name in a folder survive a power loss. */
function syncFolder(folder: string): void {
  const fd = openSync(folder, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Makes a folder whose name survives a power loss, its parents included. */
export function makeFolder(folder: string): void {
  if (mkdirSync(folder, { recursive: true }) === undefined) return;
  syncFolder(dirname(folder));
  syncFolder(dirname(dirname(folder)));
}

export class Segment {
  readonly no: number;
  readonly #fd: number;
  #bytes = 0;

  private constructor(no: number, fd: number) {
    this.no = no;
    this.#fd = fd;
  }

  /** @throws what the file system says: full, read-only, no more file descriptors. */
  static create(folder: string, no: number): Segment {
    const fd = openSync(join(folder, segmentName(no)), 'ax', 0o600);
    try {
      syncFolder(folder);
    } catch (error) {
      closeSync(fd);
      throw error;
    }
    return new Segment(no, fd);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** @throws what the file system says; what was written of it is cut off again, as far as that is possible. */
  append(bytes: Buffer): void {
    let written = 0;
    try {
      while (written < bytes.length) written += writeSync(this.#fd, bytes, written, bytes.length - written);
    } catch (error) {
      try {
        ftruncateSync(this.#fd, this.#bytes);
      } catch {
        // The reader drops an incomplete tail, and frames that it meets a second time.
      }
      throw error;
    }
    this.#bytes += written;
  }

  sync(): Promise<void> {
    return fdatasyncAsync(this.#fd);
  }

  close(): void {
    closeSync(this.#fd);
  }
}
