/** Frames that were read and are not committed yet. Each is taken once, and the waiting bytes are bounded. */
import { frameHeaderBytes, type Lane } from '#common/log/frame.ts';
import {
  type FrameRange,
  FrameSet,
  type LaneFloor,
  type LaneMarks,
  type LostRange,
  laneKey,
  laneKeyOf,
} from '#common/log/marks.ts';
import type { RecordKind } from '#common/log/record.ts';
import type { Time } from '#common/time.ts';
import type { LaneName } from './checkpoints.ts';
import type { LogFrame } from './formed-batch.ts';

export interface QueueLimits {
  readonly batchRows: number;
  readonly batchBytes: number;
  /**
   * Longest wait for a batch to fill. An insert costs ClickHouse as much as 5,000 rows, so only a lightly loaded log
   * waits half of it.
   */
  readonly flushIntervalMs: number;
}

/** Maximum bytes of frames that wait for their batch; at the maximum, reading the log pauses. */
const waitingBytesMax = 33_554_432;
/** Maximum row bytes per byte of the record; rows of clicks are smaller, because they have no field names. */
const rowBytesPerByte: Readonly<Record<RecordKind, number>> = { click: 0.9, install: 1.6, event: 1.6, match: 1.1 };
/** With fewer rows after half of the flush interval, the load is too low for a longer wait to help. */
const calmRows = 1_000;

export interface Gap {
  /** Frames below all that the journal has. */
  readonly below: readonly FrameRange[];
  /** Frames that the journal has lost. */
  readonly lost: readonly LostRange[];
  /** The marks after the gap is closed. */
  readonly marks: LaneMarks;
}

interface LaneState {
  committed: FrameSet;
  /** Frames that wait, or are in a batch that is being stored. */
  readonly taken: Set<number>;
  /**
   * Whether `committed` has everything that Postgres knows of the lane. Marks of lanes that were silent for long are
   * read only on demand.
   */
  isLearned: boolean;
}

export class FrameQueue {
  readonly counters = { frames: 0, committed_frames: 0, known_frames: 0, frames_without_room: 0 };
  readonly #limits: QueueLimits;
  readonly #onRoom: () => void;
  readonly #time: Time;
  readonly #isReplay: boolean;
  readonly #lanes = new Map<string, LaneState>();
  readonly #marks = new Map<string, LaneMarks>();
  readonly #waiting: LogFrame[] = [];
  /** Time of arrival of each waiting frame. */
  readonly #cameAt: number[] = [];
  #waitingBytes = 0;
  #waitingRows = 0;
  /** Estimated bytes of the waiting rows. */
  #rowBytes = 0;
  #wake: (() => void) | undefined;
  #isStopped = false;

  /** @param isReplay whether to take committed frames too. */
  constructor(limits: QueueLimits, marks: readonly LaneMarks[], time: Time, onRoom: () => void, isReplay = false) {
    this.#isReplay = isReplay;
    this.#limits = limits;
    this.#onRoom = onRoom;
    this.#time = time;
    for (const lane of marks) {
      const key = laneKey(lane.producer_id, lane);
      this.#lanes.set(key, { committed: new FrameSet(lane.mark, lane.ahead), taken: new Set(), isLearned: true });
      this.#marks.set(key, lane);
    }
  }

  /** Marks of every known lane. */
  get marks(): readonly LaneMarks[] {
    return [...this.#marks.values()];
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Adds a frame unless it is already known. @returns whether there is room for more. */
  push(frame: LogFrame): boolean {
    const key = laneKeyOf(frame.header);
    let lane = this.#lanes.get(key);
    if (lane === undefined) {
      lane = { committed: new FrameSet(), taken: new Set(), isLearned: false };
      this.#lanes.set(key, lane);
    }
    const frameNo = frame.header.frame_no;
    if ((!this.#isReplay && lane.committed.has(frameNo)) || lane.taken.has(frameNo)) {
      this.counters.known_frames++;
    } else if (lane.committed.has(frameNo) || lane.committed.hasRoomFor(frameNo)) {
      lane.taken.add(frameNo);
      this.#add(frame);
    } else {
      this.counters.frames_without_room++;
    }
    return this.#waitingBytes < waitingBytesMax;
  }

  #add(frame: LogFrame): void {
    this.counters.frames++;
    this.#waiting.push(frame);
    this.#cameAt.push(this.#time.elapsed());
    this.#waitingBytes += frame.bytes.length;
    this.#waitingRows += frame.header.records;
    this.#rowBytes += rowBytesOf(frame);
    if (this.#waiting.length === 1 || this.#isFull) this.#wake?.();
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  get #isFull(): boolean {
    return this.#waitingRows >= this.#limits.batchRows || this.#rowBytes >= this.#limits.batchBytes;
  }

  /**
   * The frames of the next batch: as many as fit, or those that arrived within a flush interval. Empty after `stop`.
   */
  async take(): Promise<LogFrame[]> {
    while (!this.#isStopped && !this.#isFull) {
      const { flushIntervalMs } = this.#limits;
      const patienceMs = this.#waitingRows < calmRows ? flushIntervalMs / 2 : flushIntervalMs;
      const [firstAt] = this.#cameAt;
      const left = firstAt === undefined ? undefined : firstAt + patienceMs - this.#time.elapsed();
      if (left !== undefined && left <= 0) break;
      await this.#sleep(left);
    }
    if (this.#isStopped) return [];
    let rows = 0;
    let bytes = 0;
    let count = 0;
    for (const frame of this.#waiting) {
      rows += frame.header.records;
      bytes += rowBytesOf(frame);
      const isOver = rows > this.#limits.batchRows || bytes > this.#limits.batchBytes;
      if (count > 0 && isOver) break;
      count++;
    }
    const taken = this.#waiting.splice(0, count);
    this.#cameAt.splice(0, count);
    for (const frame of taken) {
      this.#waitingBytes -= frame.bytes.length;
      this.#waitingRows -= frame.header.records;
      this.#rowBytes -= rowBytesOf(frame);
    }
    this.#onRoom();
    return taken;
  }

  stop(): void {
    this.#isStopped = true;
    this.#wake?.();
  }

  /**
   * Gaps of frames that are neither in a journal (according to its publisher) nor committed: they were committed before
   * Postgres was restored, or the journal has lost them. Call only after the log was read to its end since the publisher
   * said so. Changes no state.
   */
  gapsIn(floors: readonly LaneFloor[]): Gap[] {
    return floors.flatMap(({ floor, lost: inJournal = [], ...lane }) => {
      const state = this.#lanes.get(laneKey(lane.producer_id, lane));
      if (state?.isLearned !== true) return [];
      const { committed, taken } = state;
      // Nothing above was ever seen, so a wrong floor must not close more.
      const end = Math.min(floor, committed.top + 1);
      const lost = inJournal
        .filter(([from]) => from <= committed.top + 1)
        .flatMap(([from, to, records]) =>
          committed.holesIn(from, to).map(([first, last]): LostRange => {
            const frames = last - first + 1;
            return [first, last, frames === to - from + 1 ? records : frames];
          }),
        );
      for (const no of taken) if (no < end || lost.some(([from, to]) => no >= from && no <= to)) return [];
      const withLost = committed.union(
        new FrameSet(
          0,
          lost.map(([from, to]) => [from, to]),
        ),
      );
      const below = withLost.holesIn(1, end - 1);
      if (below.length + lost.length === 0) return [];
      const { mark, ahead } = withLost.union(new FrameSet(end - 1));
      return [{ below, lost, marks: { ...lane, mark, ahead } }];
    });
  }

  /** The lanes among these that may have an old mark in Postgres. */
  lanesToLearn(given: readonly (LaneName & Lane)[]): LaneName[] {
    const lanes = new Map<string, LaneName>();
    for (const { producer_id, kind, partition } of given) {
      const key = laneKey(producer_id, { kind, partition });
      if (this.#lanes.get(key)?.isLearned === true || lanes.has(key)) continue;
      lanes.set(key, { producer_id, kind });
    }
    return [...lanes.values()];
  }

  /** @param lanes the lanes of one partition that were looked up. @param marks the marks that were found. */
  learn(partition: number, lanes: readonly LaneName[], marks: readonly LaneMarks[]): void {
    for (const { producer_id, kind } of lanes) {
      const key = laneKey(producer_id, { kind, partition });
      const state = this.#lanes.get(key);
      if (state === undefined) this.#lanes.set(key, { committed: new FrameSet(), taken: new Set(), isLearned: true });
      else state.isLearned = true;
    }
    this.committed([], marks);
  }

  /**
   * The taken frames that must be stored: if the mark of a lane was looked up since, some of its frames may be
   * committed.
   */
  withoutCommitted(frames: readonly LogFrame[]): readonly LogFrame[] {
    if (this.#isReplay) return frames;
    const known = frames.filter(({ header }) => this.#lanes.get(laneKeyOf(header))?.committed.has(header.frame_no));
    if (known.length === 0) return frames;
    this.counters.known_frames += known.length;
    this.committed(known, []);
    return frames.filter((frame) => !known.includes(frame));
  }

  /** The marks as they will be after these frames are committed. Changes no state. */
  marksWith(frames: readonly Pick<LogFrame, 'header'>[]): LaneMarks[] {
    const sets = new Map<string, { set: FrameSet; lane: Omit<LaneMarks, 'mark' | 'ahead'> }>();
    for (const { header } of frames) {
      const key = laneKeyOf(header);
      let entry = sets.get(key);
      if (entry === undefined) {
        const known = this.#lanes.get(key)?.committed ?? new FrameSet();
        const { producer_id, kind, partition } = header;
        entry = { set: new FrameSet(known.mark, known.ahead), lane: { producer_id, kind, partition } };
        sets.set(key, entry);
      }
      entry.set.add(header.frame_no);
    }
    return [...sets.values()].map(({ set, lane }) => ({ ...lane, mark: set.mark, ahead: set.ahead }));
  }

  /** Call after the marks were written. */
  committed(frames: readonly Pick<LogFrame, 'header'>[], marks: readonly LaneMarks[]): void {
    for (const lane of marks) {
      const key = laneKey(lane.producer_id, lane);
      this.#marks.set(key, lane);
      const state = this.#lanes.get(key);
      if (state !== undefined) state.committed = new FrameSet(lane.mark, lane.ahead);
      else this.#lanes.set(key, { committed: new FrameSet(lane.mark, lane.ahead), taken: new Set(), isLearned: true });
    }
    for (const { header } of frames) {
      if (this.#lanes.get(laneKeyOf(header))?.taken.delete(header.frame_no)) this.counters.committed_frames++;
    }
  }

  #sleep(ms: number | undefined): Promise<void> {
    return new Promise((done) => {
      const timer = ms === undefined ? undefined : this.#time.after(ms, () => this.#wake?.());
      this.#wake = () => {
        this.#time.clear(timer);
        this.#wake = undefined;
        done();
      };
    });
  }
}

function rowBytesOf({ header, bytes }: LogFrame): number {
  return (bytes.length - frameHeaderBytes) * rowBytesPerByte[header.kind];
}
