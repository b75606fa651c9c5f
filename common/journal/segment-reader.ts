/**
 * Reads the frames of one segment, also while it is being written. Where the bytes are no frame of the producer, it
 * searches for the next one. A payload cannot look like a frame: it is JSON, which has no NUL, and a header has several.
 *
 * Bytes without a frame after them are the segment's tail: not written yet, or cut off by a crash.
 */
import {
  type FrameHeader,
  type FrameRead,
  frameBytesMax,
  frameRecordsMax,
  readFrame,
  readHeader,
} from '#common/log/frame.ts';
import type { Disk } from './disk.ts';

/** Bytes that are no intact frame. */
export interface BadBytes {
  readonly offset: number;
  readonly bytes: number;
  /** Of frames in them whose header may have survived. */
  readonly headers: readonly FrameHeader[];
}

export type SegmentRead =
  /** The bytes are in memory that is never overwritten. */
  | { readonly state: 'frame'; readonly header: FrameHeader; readonly bytes: Buffer; readonly offset: number }
  /** Damage: an intact frame follows. */
  | { readonly state: 'damaged'; readonly place: BadBytes }
  | { readonly state: 'end'; readonly tail: BadBytes };

const chunkBytes = 1_048_576;
const empty = Buffer.alloc(0);
/** Shared read buffer; the bytes are then copied into memory of their own size. */
const chunk = Buffer.allocUnsafeSlow(chunkBytes);
const magicText = Buffer.from('SPF1');
const headersMax = 1_000;

export class SegmentReader {
  readonly #disk: Disk;
  readonly #path: string;
  readonly #producerId: string;
  #offset: number;
  #file = -1;
  /** The bytes of the file from #offset on are in #buffer from #from to #to. */
  #buffer = empty;
  #from = 0;
  #to = 0;
  /** Where the bytes in front of #offset that are no frame begin. */
  #badFrom = -1;
  #headers: FrameHeader[] = [];

  constructor(disk: Disk, path: string, producerId: string, offset = 0) {
    this.#disk = disk;
    this.#path = path;
    this.#producerId = producerId;
    this.#offset = offset;
  }

  /** Where the next read begins. */
  get offset(): number {
    return this.#offset;
  }

  /** Bytes of the file that were read. */
  get bytesRead(): number {
    return this.#offset + this.#to - this.#from;
  }

  next(): SegmentRead {
    for (;;) {
      const readable = this.#buffer.subarray(this.#from, this.#to);
      const read = this.#frameAt(readable, 0);
      if (read.state === 'frame') {
        const place = this.#endOfDamage();
        if (place !== undefined) return { state: 'damaged', place };
        const { header, bytes } = read;
        const frame = { state: 'frame', header, bytes: readable.subarray(0, bytes), offset: this.#offset } as const;
        this.#skip(bytes);
        return frame;
      }
      if (this.#refill() > 0) continue;
      const { next, headers } = this.#search(readable);
      // Up to here, no frame can begin in a buffer with room for any.
      const decided = next === -1 ? readable.length - frameBytesMax : next;
      if (decided <= 0) return { state: 'end', tail: this.#tail(readable.length, headers) };
      if (this.#badFrom === -1) this.#badFrom = this.#offset;
      this.#headers.push(...headers.filter(({ at }) => at < decided).map(({ header }) => header));
      this.#headers.splice(headersMax);
      this.#skip(decided);
    }
  }

  /** Closes the file; the next read continues at the same position. */
  close(): void {
    if (this.#file !== -1) this.#disk.close(this.#file);
    this.#file = -1;
    this.#buffer = empty;
    this.#from = 0;
    this.#to = 0;
  }

  #skip(bytes: number): void {
    this.#offset += bytes;
    this.#from += bytes;
  }

  #endOfDamage(): BadBytes | undefined {
    if (this.#badFrom === -1) return undefined;
    const place = { offset: this.#badFrom, bytes: this.#offset - this.#badFrom, headers: this.#headers };
    this.#badFrom = -1;
    this.#headers = [];
    return place;
  }

  #tail(bytes: number, headers: readonly { readonly header: FrameHeader }[]): BadBytes {
    const offset = this.#badFrom === -1 ? this.#offset : this.#badFrom;
    const all = [...this.#headers, ...headers.map(({ header }) => header)];
    return { offset, bytes: this.#offset + bytes - offset, headers: all };
  }

  #frameAt(bytes: Buffer, at: number): FrameRead {
    const read = readFrame(bytes, at);
    return read.state === 'frame' && read.header.producer_id !== this.#producerId ? { state: 'bad' } : read;
  }

  /** Where the next intact frame begins, and the headers of frames in front of it that are whole but not intact. */
  #search(bytes: Buffer): { next: number; headers: { at: number; header: FrameHeader }[] } {
    const headers: { at: number; header: FrameHeader }[] = [];
    for (let at = bytes.indexOf(magicText); at !== -1; at = bytes.indexOf(magicText, at + 1)) {
      const read = readHeader(bytes, at);
      if (read.state !== 'frame' || read.header.producer_id !== this.#producerId) continue;
      if (at > 0 && readFrame(bytes, at).state === 'frame') return { next: at, headers };
      const isWhole = bytes.length - at >= read.bytes && read.header.records <= frameRecordsMax;
      if (isWhole && headers.length < headersMax) headers.push({ at, header: read.header });
    }
    return { next: -1, headers };
  }

  /** Reads more of the file. @returns how many bytes were read. */
  #refill(): number {
    if (this.#file === -1) this.#file = this.#disk.openToRead(this.#path);
    const kept = this.#to - this.#from;
    if (kept > frameBytesMax) return 0;
    const bytes = this.#disk.read(this.#file, chunk, this.#offset + kept);
    if (bytes === 0) return 0;
    // Frames that were returned still use the old buffer.
    const larger = Buffer.allocUnsafeSlow(kept + bytes);
    this.#buffer.copy(larger, 0, this.#from, this.#to);
    chunk.copy(larger, kept, 0, bytes);
    this.#buffer = larger;
    this.#from = 0;
    this.#to = larger.length;
    return bytes;
  }
}
