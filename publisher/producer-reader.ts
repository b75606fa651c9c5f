/**
 * Reads the journal of one producer from its first segment on, while it is being written or after its process has died.
 *
 * After a failed sync, the affected frames are rewritten into a new segment, and if the power is then lost, a later
 * frame may survive in front of them. So frames are returned in the order in which they are on disk, and one that was
 * rewritten is returned twice; the marks of the sink drop it.
 *
 * The numbers of a lane's frames have no gap. A number that is in no file although later ones are is lost: its frame was
 * damaged, or its file was. It is reported as lost once it was missing for a while in everything that can be read.
 */
import { join } from 'node:path';
import { type Disk, isAbsent } from '#common/journal/disk.ts';
import { segmentName, segmentShape } from '#common/journal/segment.ts';
import { type BadBytes, type SegmentRead, SegmentReader } from '#common/journal/segment-reader.ts';
import type { FrameHeader, Lane } from '#common/log/frame.ts';
import { FrameSet, type LaneFloor, type LostRange, laneKeyOf, lostRangesMax } from '#common/log/marks.ts';

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
  /** Nothing more at the moment. */
  | { readonly state: 'end' }
  /** A file cannot be read, which may pass: `damage` says why. */
  | { readonly state: 'blocked' };

/** The state of one file. */
export interface SegmentState {
  readonly no: number;
  readonly name: string;
  /** First and last frame number seen in it, by lane. It is deleted once all of these are committed. */
  readonly frames: Map<string, { first: number; last: number }>;
  /** Read to its end, and nothing will be appended to it. */
  isFinished: boolean;
  /** Its length when it was finished. */
  bytes: number;
  /** Bytes of its torn tail. */
  tornBytes: number;
  /** Places in front of intact frames that are no frame, by offset. A file with such a place is kept. */
  readonly damage: Map<number, string>;
  /** `elapsed()` at which it did not exist yet; -Infinity if it may be older than the publisher. */
  readonly absentAt: number;
}

interface SeenLane {
  readonly lane: Lane;
  /** Everything below the first frame, if the producer was not read from its beginning, and each frame on disk. */
  frames: FrameSet;
  low: number;
  /** The last frame that was begun: its header is there, but what follows it is damaged. */
  begun: number;
  /** Records of damaged frames whose header survived. */
  readonly records: Map<number, number>;
}

interface Hole {
  readonly from: number;
  readonly to: number;
  readonly since: number;
}

/** A process rewrites frames at once after an error; the rest is for its publisher to see them. */
const missingMs = 10_000;

export class ProducerReader {
  readonly folder: string;
  readonly producerId: string;
  readonly #disk: Disk;
  #isAlive = true;
  #segments: SegmentState[] = [];
  #at = 0;
  #file: SegmentReader | undefined;
  #offset = 0;
  #isWhole = true;
  readonly #seen = new Map<string, SeenLane>();
  #holes = new Map<string, readonly Hole[]>();
  #hasReachedEnd = false;
  /** Frames that were seen may be gone since. */
  #mustReadAgain = false;
  #isFolderGone = false;
  #lossReason = '';
  /** Why the current file cannot be read. */
  #fault = '';
  /** Why its folder could not be listed at the last scan. */
  #folderFault = '';

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

  /** What is damaged; empty if nothing is. */
  get damage(): string {
    const fault = this.#fault || this.#folderFault;
    if (fault !== '') return fault;
    for (const { name, damage } of this.#segments) {
      for (const what of damage.values()) return `${what} of ${join(this.folder, name)}`;
    }
    return this.#lossReason;
  }

  /** The first segment that may be deleted once its frames are committed. */
  get oldest(): SegmentState | undefined {
    return this.#segments.find(({ damage }) => damage.size === 0);
  }

  /**
   * The oldest frame on disk of each lane that was read, whole or not, and the frames from there on that are lost; empty
   * until everything was read once. @param now by a clock that does not jump.
   */
  floors(now: number): LaneFloor[] {
    if (!this.#hasReachedEnd) return [];
    const floors = new Map<string, number>();
    for (const { frames } of this.#segments) {
      for (const [key, { first }] of frames) floors.set(key, Math.min(first, floors.get(key) ?? first));
    }
    const holes = new Map<string, readonly Hole[]>();
    this.#lossReason = '';
    const all = [...this.#seen].flatMap(([key, { lane }]): LaneFloor[] => {
      const missing = this.#missingOf(key, now);
      holes.set(key, missing);
      // Of a lane whose intact frames are all committed and deleted, only the lost ones are left.
      const floor = floors.get(key) ?? missing[0]?.from;
      if (floor === undefined) return [];
      const lost = missing.filter(({ since }) => now - since >= missingMs).map((hole) => this.#lost(key, hole));
      return [{ ...lane, producer_id: this.producerId, floor, ...(lost.length === 0 ? {} : { lost }) }];
    });
    this.#holes = holes;
    return all;
  }

  /** Whether numbers that the sink does not have yet are in no file. @param marksOf what it has of a lane. */
  lacksAny(marksOf: (key: string) => FrameSet): boolean {
    return [...this.#seen].some(([key, seen]) => missingIn(seen).some(([from, to]) => !marksOf(key).hasAll(from, to)));
  }

  /**
   * Adds new segments, and forgets those that someone deleted.
   * @param absentAt `elapsed()` of the scan before, which did not find the new ones.
   */
  scan(absentAt = Number.NEGATIVE_INFINITY): void {
    const names = this.#names();
    if (names === undefined) return;
    const known = new Set(this.#segments.map((segment) => segment.name));
    if (this.#segments.some((segment) => !names.includes(segment.name))) {
      this.#segments = this.#segments.filter((segment) => names.includes(segment.name));
      this.rewind();
    }
    const added = names.filter((name) => !known.has(name));
    if (this.#segments.length === 0 && added.length > 0) this.#isWhole = added[0] === segmentName(1);
    for (const name of added) {
      const state = { isFinished: false, bytes: 0, tornBytes: 0, damage: new Map(), absentAt };
      this.#segments.push({ no: Number.parseInt(name, 10), name, frames: new Map(), ...state });
    }
  }

  /** `elapsed()` before which no frame of a segment was written. */
  absentAt(segment: number): number {
    return this.#segments.find(({ no }) => no === segment)?.absentAt ?? Number.NEGATIVE_INFINITY;
  }

  next(): ReadOutcome {
    for (;;) {
      const segment = this.#segments[this.#at];
      if (segment === undefined) return this.#end();
      const read = this.#read(segment);
      if (read === undefined) return { state: 'blocked' };
      if (read.state === 'frame') {
        const { header, bytes, offset } = read;
        this.#note(segment, header);
        return { state: 'frame', frame: { header, bytes, position: { segment: segment.no, offset } } };
      }
      if (read.state === 'damaged') {
        this.#noteDamage(segment, read.place);
        continue;
      }
      const isLast = this.#at === this.#segments.length - 1;
      if (!isLast || !this.#isAlive) this.#finish(segment, read.tail);
      if (!isLast) this.#enter(this.#at + 1, 0);
      else if (this.#mustReadAgain) this.rewind();
      else {
        this.#hasReachedEnd = true;
        return this.#end();
      }
    }
  }

  #end(): ReadOutcome {
    return { state: this.#folderFault === '' ? 'end' : 'blocked' };
  }

  /**
   * Goes back to a position, or to the first remaining segment. It never goes forward: of two requests to go back, the
   * later one must not skip what the earlier one still has to read again.
   */
  rewind(position?: Position): void {
    const at = position === undefined ? 0 : this.#segments.findIndex((segment) => segment.no === position.segment);
    if (position !== undefined && (at > this.#at || (at === this.#at && position.offset >= this.#offset))) return;
    const offset = at === -1 ? 0 : (position?.offset ?? 0);
    for (const segment of this.#segments.slice(Math.max(at, 0))) segment.isFinished = false;
    this.#enter(Math.max(at, 0), offset);
    if (this.#at > 0 || offset > 0) return;
    this.#isWhole = (this.#segments[0]?.no ?? 1) === 1;
    this.#seen.clear();
    this.#hasReachedEnd = false;
    this.#mustReadAgain = false;
  }

  /**
   * Deletes the oldest segment, which has been read to its end. @returns false, keeping the file, if it has grown since:
   * its supposedly dead writer is alive.
   */
  removeOldest(): boolean {
    const segment = this.oldest;
    if (segment === undefined) return false;
    const path = this.#pathOf(segment);
    if ((this.#disk.bytesOf(path) ?? 0) > segment.bytes) {
      segment.isFinished = false;
      return false;
    }
    const at = this.#segments.indexOf(segment);
    this.#segments.splice(at, 1);
    if (this.#at === at) this.#enter(at, 0);
    else if (this.#at > at) this.#at--;
    this.#disk.removeFile(path);
    return true;
  }

  /** Deletes the folder of a dead producer, unless someone has put other files there. */
  removeFolder(): void {
    this.close();
    if (this.#isFolderGone) return;
    try {
      this.#disk.removeEmptyFolder(this.folder);
    } catch {
      // Its files are kept; it costs a look at each scan.
    }
  }

  /** Closes the file; the next read continues at the same position. */
  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  /** @returns `undefined` if the system cannot read the file. */
  #read(segment: SegmentState): SegmentRead | undefined {
    this.#file ??= new SegmentReader(this.#disk, this.#pathOf(segment), this.producerId, this.#offset);
    try {
      const read = this.#file.next();
      this.#fault = '';
      this.#offset = this.#file.offset;
      return read;
    } catch (error) {
      if (!(error instanceof Error) || !('code' in error)) throw error;
      this.#fault = `${this.#pathOf(segment)} cannot be read: ${error.message}`;
      this.close();
      return undefined;
    }
  }

  /** @returns `undefined` if the system cannot list the folder, which may pass. */
  #names(): string[] | undefined {
    this.#folderFault = '';
    try {
      return this.#disk
        .names(this.folder)
        .filter((name) => segmentShape.test(name))
        .sort();
    } catch (error) {
      if (!(error instanceof Error) || !('code' in error)) throw error;
      this.#isFolderGone = isAbsent(error);
      if (this.#isFolderGone) return [];
      this.#folderFault = `${this.folder} cannot be listed: ${error.message}`;
      return undefined;
    }
  }

  #pathOf(segment: SegmentState): string {
    return join(this.folder, segment.name);
  }

  #enter(at: number, offset: number): void {
    this.close();
    this.#at = at;
    this.#offset = offset;
  }

  #finish(segment: SegmentState, tail: BadBytes): void {
    segment.isFinished = true;
    segment.bytes = this.#file?.bytesRead ?? 0;
    segment.tornBytes = tail.bytes;
    for (const header of tail.headers) this.#noteBegun(segment, header);
  }

  #note(segment: SegmentState, header: FrameHeader): void {
    this.#see(header);
    this.#noteIn(segment, header);
  }

  #noteIn(segment: SegmentState, header: FrameHeader): void {
    const key = laneKeyOf(header);
    const { frame_no } = header;
    const seen = segment.frames.get(key);
    if (seen === undefined) return void segment.frames.set(key, { first: frame_no, last: frame_no });
    seen.first = Math.min(seen.first, frame_no);
    seen.last = Math.max(seen.last, frame_no);
  }

  #see(header: FrameHeader): void {
    const frameNo = header.frame_no;
    const lane = this.#laneOf(header);
    if (frameNo < lane.low) {
      const { mark, ahead } = lane.frames;
      lane.frames = new FrameSet(frameNo - 1, mark < lane.low ? ahead : [[lane.low, mark], ...ahead]);
      lane.low = frameNo;
    }
    lane.frames.add(frameNo);
  }

  #laneOf(header: FrameHeader): SeenLane {
    const key = laneKeyOf(header);
    const known = this.#seen.get(key);
    if (known !== undefined) return known;
    const { kind, partition, frame_no } = header;
    const low = this.#isWhole ? 1 : frame_no;
    const lane = { lane: { kind, partition }, frames: new FrameSet(low - 1), low, begun: 0, records: new Map() };
    this.#seen.set(key, lane);
    return lane;
  }

  /** Notes a frame with a header but without the rest. Its file stays until it is counted. */
  #noteBegun(segment: SegmentState, header: FrameHeader): void {
    const seen = this.#laneOf(header);
    seen.records.set(header.frame_no, header.records);
    if (header.frame_no !== Math.max(seen.frames.top, seen.begun) + 1) return;
    seen.begun = header.frame_no;
    this.#noteIn(segment, header);
  }

  #noteDamage(segment: SegmentState, { offset, bytes, headers }: BadBytes): void {
    if (!segment.damage.has(offset)) {
      segment.damage.set(offset, `a damaged place at byte ${offset}, ${bytes} bytes,`);
      // Frames that were seen there before are lost now.
      this.#mustReadAgain = true;
    }
    for (const header of headers) this.#noteBegun(segment, header);
  }

  /** The numbers of a lane that are in no file. */
  #missingOf(key: string, now: number): Hole[] {
    const seen = this.#seen.get(key);
    if (seen === undefined) return [];
    const before = this.#holes.get(key) ?? [];
    return missingIn(seen).map(([from, to]) => {
      const known = before.find((hole) => hole.from <= from && to <= hole.to);
      return { from, to, since: known?.since ?? now };
    });
  }

  #lost(key: string, { from, to }: Hole): LostRange {
    if (this.#lossReason === '') this.#lossReason = `frames ${from} to ${to} of ${key} are in no file`;
    let records = to - from + 1;
    for (const [frameNo, count] of this.#seen.get(key)?.records ?? [])
      if (frameNo >= from && frameNo <= to) records += count - 1;
    return [from, to, records];
  }
}

/** The first numbers that are in no file. */
const missingIn = ({ frames, begun }: SeenLane) =>
  frames.holesIn(1, Math.max(frames.top, begun)).slice(0, lostRangesMax);
