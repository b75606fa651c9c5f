/**
 * Reads the journal of one producer from its first segment on, while it is being written or after its process has died.
 *
 * An incomplete or damaged end of a segment means: not written yet (the last segment of a live producer), cut off by a
 * crash (the last segment of a dead one), or rewritten in the next segment after an error. A damaged frame before
 * intact ones, or a gap in the frame numbers of a lane, means that the disk lost data: reading stops there permanently,
 * the files are kept, and an operator has to examine them.
 *
 * After a failed sync, the affected frames are rewritten into a new segment. If the power is then lost, a later frame
 * may have survived in front of them. So frames after a gap are skipped until the missing frame is found; the gap is
 * damage only if no later segment has that frame.
 */
import { join } from 'node:path';
import type { Disk } from '#common/journal/disk.ts';
import { segmentName, segmentShape } from '#common/journal/segment.ts';
import { type FrameHeader, frameBytesMax, type Lane, readFrame } from '#common/log/frame.ts';
import { type LaneFloor, laneKeyOf } from '#common/log/marks.ts';

export interface JournalFrame {
  readonly header: FrameHeader;
  /** The whole frame, in memory that is never overwritten. */
  readonly bytes: Buffer;
  readonly position: Position;
}

export interface Position {
  readonly segment: number;
  readonly offset: number;
}

export type ReadOutcome =
  | { readonly state: 'frame'; readonly frame: JournalFrame }
  /** A frame after a gap was skipped. */
  | { readonly state: 'skipped' }
  /** Nothing more at the moment. */
  | { readonly state: 'end' }
  | { readonly state: 'damaged'; readonly reason: string };

/** The state of one file. */
export interface SegmentState {
  readonly no: number;
  readonly name: string;
  /** First and last frame number seen in it, by lane. */
  readonly frames: Map<string, { readonly lane: Lane; first: number; last: number }>;
  /** Read to its end, and nothing will be appended to it. */
  isFinished: boolean;
  /** Its length when it was finished. */
  bytes: number;
}

const chunkBytes = 1_048_576;
const empty = Buffer.alloc(0);
/** Shared read buffer; the bytes are then copied into memory of their own size. */
const chunk = Buffer.allocUnsafeSlow(chunkBytes);
const magicText = Buffer.from('SPF1');

export class ProducerReader {
  readonly folder: string;
  readonly producerId: string;
  readonly #disk: Disk;
  /** Bytes of torn tails that were skipped. */
  tornBytes = 0;
  #isAlive = true;
  #segments: SegmentState[] = [];
  #at = 0;
  #offset = 0;
  #file = -1;
  /** The bytes of the file from #offset on are in #buffer from #from to #to. */
  #buffer = empty;
  #from = 0;
  #to = 0;
  #isWhole = true;
  #lastFrame = new Map<string, number>();
  /** By lane, the first frame that was read since the reader began or went back. */
  #firstFrame = new Map<string, number>();
  /**
   * By lane, a missing frame, and the damage to report if it is not found. Also kept when reading starts again, which may
   * be behind the gap.
   */
  #gaps = new Map<string, { readonly missing: number; readonly reason: string }>();
  #hasReachedEnd = false;
  #damage = '';

  constructor(disk: Disk, folder: string, producerId: string) {
    this.#disk = disk;
    this.folder = folder;
    this.producerId = producerId;
  }

  /** Whether its process may still write. Set from the slot's lock, before the last read. */
  get isAlive(): boolean {
    return this.#isAlive;
  }

  set isAlive(isAlive: boolean) {
    this.#isAlive = isAlive;
    // A process that starts while its lock is checked may have been presumed dead: more data may arrive.
    const last = this.#segments.at(-1);
    if (isAlive && last !== undefined) last.isFinished = false;
  }

  get segments(): readonly SegmentState[] {
    return this.#segments;
  }

  /** The oldest frame on disk of each lane that was read; empty until everything was read once. */
  get floors(): LaneFloor[] {
    const floors = new Map<string, LaneFloor>();
    if (!this.#hasReachedEnd) return [];
    for (const segment of this.#segments) {
      for (const [key, { lane, first }] of segment.frames) {
        const floor = Math.min(first, floors.get(key)?.floor ?? first);
        floors.set(key, { ...lane, producer_id: this.producerId, floor });
      }
    }
    return [...floors.values()];
  }

  /** Read to the end of a dead producer's last segment. */
  get isFinished(): boolean {
    return this.#damage === '' && this.#segments.every((segment) => segment.isFinished);
  }

  /** Adds new segments. */
  scan(): void {
    const known = new Set(this.#segments.map((segment) => segment.name));
    const names = this.#disk.names(this.folder).filter((name) => segmentShape.test(name) && !known.has(name));
    if (this.#segments.length === 0 && names.length > 0) this.#isWhole = names.sort()[0] === segmentName(1);
    for (const name of names.sort()) {
      this.#segments.push({ no: Number.parseInt(name, 10), name, frames: new Map(), isFinished: false, bytes: 0 });
    }
  }

  next(): ReadOutcome {
    if (this.#damage !== '') return { state: 'damaged', reason: this.#damage };
    for (;;) {
      const segment = this.#segments[this.#at];
      if (segment === undefined) return { state: 'end' };
      const read = this.#readAt(segment);
      if (read.state === 'frame' || read.state === 'skipped') return read;
      if (read.state === 'damaged') {
        this.#damage = read.reason;
        return read;
      }
      if (this.#at === this.#segments.length - 1) {
        const [gap] = this.#gaps.values();
        if (gap !== undefined) {
          this.#damage = gap.reason;
          return { state: 'damaged', reason: gap.reason };
        }
        if (!this.#isAlive) this.#finish(segment);
        this.#hasReachedEnd = true;
        return { state: 'end' };
      }
      this.#finish(segment);
      this.#enter(this.#at + 1, 0);
    }
  }

  /**
   * Goes back to a position, or to the first remaining segment. It never goes forward: of two requests to go back, the
   * later one must not skip what the earlier one still has to read again.
   */
  rewind(position?: Position): void {
    const at = position === undefined ? 0 : this.#segments.findIndex((segment) => segment.no === position.segment);
    if (position !== undefined && (at > this.#at || (at === this.#at && position.offset >= this.#offset))) return;
    const segment = this.#segments[Math.max(at, 0)];
    const offset = at === -1 ? 0 : (position?.offset ?? 0);
    this.#damage = '';
    this.#lastFrame = new Map();
    this.#firstFrame = new Map();
    this.#isWhole = segment === undefined || (segment.no === 1 && offset === 0);
    for (const segment of this.#segments.slice(Math.max(at, 0))) segment.isFinished = false;
    this.#enter(Math.max(at, 0), offset);
  }

  /**
   * Deletes the first segment, which has been read to its end. @returns false, keeping the file, if it has grown since:
   * its supposedly dead writer is alive.
   */
  removeFirst(): boolean {
    const segment = this.#segments[0];
    if (segment === undefined) return false;
    const path = join(this.folder, segment.name);
    if ((this.#disk.bytesOf(path) ?? 0) > segment.bytes) {
      segment.isFinished = false;
      return false;
    }
    this.#segments.shift();
    if (this.#at === 0) this.#enter(0, 0);
    else this.#at--;
    this.#disk.removeFile(path);
    return true;
  }

  /** Deletes the empty folder of a dead producer. */
  removeFolder(): void {
    this.close();
    this.#disk.removeEmptyFolder(this.folder);
  }

  /** Closes the file; the next read continues at the same position. */
  close(): void {
    if (this.#file !== -1) this.#disk.close(this.#file);
    this.#file = -1;
    this.#buffer = empty;
    this.#from = 0;
    this.#to = 0;
  }

  /** Read to its end. While a frame is missing, what follows the gap is not finished, and so is not deleted. */
  #finish(segment: SegmentState): void {
    segment.isFinished = this.#gaps.size === 0;
    segment.bytes = this.#offset + this.#to - this.#from;
  }

  #enter(at: number, offset: number): void {
    this.close();
    this.#at = at;
    this.#offset = offset;
  }

  #readAt(segment: SegmentState): ReadOutcome {
    for (;;) {
      const readable = this.#buffer.subarray(this.#from, this.#to);
      const read = readFrame(readable, 0);
      if (read.state === 'frame') {
        const frame = {
          header: read.header,
          bytes: readable.subarray(0, read.bytes),
          position: { segment: segment.no, offset: this.#offset },
        };
        this.#offset += read.bytes;
        this.#from += read.bytes;
        const outcome = this.#accept(segment, frame);
        if (outcome !== undefined) return outcome;
      } else if (this.#refill(segment) === 0) {
        return this.#tail(segment, read.state === 'bad', this.#buffer.subarray(this.#from, this.#to));
      }
    }
  }

  /** Checks the number of a frame. @returns undefined for a known frame that was rewritten after an error. */
  #accept(segment: SegmentState, frame: JournalFrame): ReadOutcome | undefined {
    const key = laneKeyOf(frame.header);
    const { frame_no } = frame.header;
    const missing = this.#gaps.get(key)?.missing ?? Number.POSITIVE_INFINITY;
    const first = this.#isWhole ? 1 : Math.min(frame_no, missing);
    const expected = (this.#lastFrame.get(key) ?? first - 1) + 1;
    if (frame_no > expected) {
      if (expected < missing) {
        const reason = `${key} goes from frame ${expected - 1} to ${frame_no} in ${segment.name}`;
        this.#gaps.set(key, { missing: expected, reason });
      }
      return { state: 'skipped' };
    }
    // A frame older than the first was rewritten after it.
    if (frame_no < expected && frame_no >= (this.#firstFrame.get(key) ?? 0)) return undefined;
    if (frame_no === expected) this.#lastFrame.set(key, frame_no);
    if (!this.#firstFrame.has(key)) this.#firstFrame.set(key, this.#isWhole ? 0 : frame_no);
    if (frame_no === missing && this.#gaps.delete(key) && this.#gaps.size === 0)
      for (const before of this.#segments.slice(0, this.#at)) before.isFinished = true;
    const seen = segment.frames.get(key);
    if (seen === undefined) {
      const { kind, partition } = frame.header;
      segment.frames.set(key, { lane: { kind, partition }, first: frame_no, last: frame_no });
    } else {
      seen.first = Math.min(seen.first, frame_no);
      seen.last = Math.max(seen.last, frame_no);
    }
    return { state: 'frame', frame };
  }

  /** Reads more of the file. @returns how many bytes were read. */
  #refill(segment: SegmentState): number {
    if (this.#file === -1) this.#file = this.#disk.openToRead(join(this.folder, segment.name));
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

  /** Classifies the end of the readable part of a segment: nothing, a torn tail, or damage. */
  #tail(segment: SegmentState, isBad: boolean, tail: Buffer): ReadOutcome {
    if (tail.length === 0) return { state: 'end' };
    const damaged: ReadOutcome = {
      state: 'damaged',
      reason: `a damaged frame at byte ${this.#offset} of ${segment.name}`,
    };
    if (isBad && tail.length > frameBytesMax) return damaged;
    for (let at = tail.indexOf(magicText, 1); at !== -1; at = tail.indexOf(magicText, at + 1)) {
      if (readFrame(tail, at).state === 'frame') return damaged;
    }
    const isLast = this.#at === this.#segments.length - 1;
    if (!isLast || !this.#isAlive) this.tornBytes += tail.length;
    return { state: 'end' };
  }
}
