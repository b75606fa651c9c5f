/**
 * Which frames of a lane the sink has committed: all up to the mark, and some ranges ahead of it. Between these are
 * holes: frames that were published later than their neighbours. Ingest stores the marks in Postgres and announces
 * them; publishers follow the announcements and delete what is committed.
 */
import { isObject } from '#common/json-object.ts';
import type { FrameHeader, Lane } from './frame.ts';
import { type RecordKind, recordKinds } from './record.ts';

/** Ingest's reply to a progress report of a machine under whose name other journals report. */
export const machineNameTaken = 'machine name taken';

export type FrameRange = readonly [from: number, to: number];
/** Frames that a journal has lost, and how many records were in them, at least. */
export type LostRange = readonly [from: number, to: number, records: number];
/** Maximum lost ranges of a lane in one request. */
export const lostRangesMax = 256;
/** Maximum ranges ahead of a mark. A frame that would add one more is not accepted, and arrives again later. */
export const rangesAheadMax = 256;

/** The frames of one lane of one producer. */
export class FrameSet {
  #mark: number;
  #ahead: FrameRange[];

  constructor(mark = 0, ahead: readonly FrameRange[] = []) {
    this.#mark = mark;
    this.#ahead = [...ahead];
  }

  /** Every frame up to here is in the set. */
  get mark(): number {
    return this.#mark;
  }

  get ahead(): readonly FrameRange[] {
    return this.#ahead;
  }

  has(frameNo: number): boolean {
    return frameNo <= this.#mark || this.#ahead.some(([from, to]) => frameNo >= from && frameNo <= to);
  }

  /** Whether all frames of a range are in the set. */
  hasAll(from: number, to: number): boolean {
    const first = Math.max(from, this.#mark + 1);
    return first > to || this.#ahead.some((range) => first >= range[0] && to <= range[1]);
  }

  /** The frames of a range that are not in the set. */
  holesIn(from: number, to: number): FrameRange[] {
    const holes: FrameRange[] = [];
    let next = Math.max(from, this.#mark + 1);
    for (const range of this.#ahead) {
      if (range[0] > to) break;
      if (range[0] > next) holes.push([next, range[0] - 1]);
      next = Math.max(next, range[1] + 1);
    }
    if (next <= to) holes.push([next, to]);
    return holes;
  }

  /** The largest frame of the set. */
  get top(): number {
    return this.#ahead.at(-1)?.[1] ?? this.#mark;
  }

  /** The frames of both. */
  union(other: FrameSet): FrameSet {
    const merged: [number, number][] = [];
    const all = [...this.#ahead, ...other.#ahead].sort(([one], [two]) => one - two);
    for (const [from, to] of [[1, Math.max(this.#mark, other.#mark)] as const, ...all]) {
      const last = merged.at(-1);
      if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
      else merged.push([from, to]);
    }
    return new FrameSet(merged[0]?.[1], merged.slice(1));
  }

  /** Whether the frame can be added without exceeding the maximum. */
  hasRoomFor(frameNo: number): boolean {
    if (this.#ahead.length < rangesAheadMax || frameNo <= this.#mark + 1) return true;
    return this.#ahead.some(([from, to]) => frameNo >= from - 1 && frameNo <= to + 1);
  }

  add(frameNo: number): void {
    if (this.has(frameNo)) return;
    if (frameNo === this.#mark + 1 && this.#ahead.length === 0) {
      this.#mark = frameNo;
      return;
    }
    const at = this.#ahead.findIndex(([from]) => from > frameNo);
    this.#ahead.splice(at === -1 ? this.#ahead.length : at, 0, [frameNo, frameNo]);
    const merged: [number, number][] = [];
    for (const [from, to] of this.#ahead) {
      const last = merged.at(-1);
      if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
      else merged.push([from, to]);
    }
    const first = merged[0];
    if (first !== undefined && first[0] === this.#mark + 1) {
      this.#mark = first[1];
      merged.shift();
    }
    this.#ahead = merged;
  }
}

/** The name of a lane of a producer in maps. */
export function laneKey(producerId: string, lane: Lane): string {
  return `${producerId}:${lane.kind}:${lane.partition}`;
}

export function laneKeyOf(header: FrameHeader): string {
  return laneKey(header.producer_id, header);
}

/** Lanes in one announcement: 256 ranges each still fit into a message. */
const lanesPerAnnouncement = 100;

export interface LaneMarks extends Lane {
  readonly producer_id: string;
  readonly mark: number;
  readonly ahead: readonly FrameRange[];
}

/** What ingest announces after each commit and on request. */
export interface Announcement {
  /** The installation whose marks these are; empty from versions that had none. */
  readonly installation_id: string;
  readonly partition: number;
  /**
   * Every message of this partition that the log had stored this long ago is committed: in ms before this was sent, by a
   * clock that cannot jump. Absent while unknown.
   */
  readonly committed_ago?: number;
  readonly lanes: readonly LaneMarks[];
}

export function encodeAnnouncements(announcement: Announcement): Buffer[] {
  const messages: Buffer[] = [];
  for (let at = 0; at === 0 || at < announcement.lanes.length; at += lanesPerAnnouncement) {
    messages.push(
      // Publishers of earlier versions require `committed_to`, a time by another machine's clock.
      Buffer.from(
        JSON.stringify({
          committed_to: 0,
          ...announcement,
          lanes: announcement.lanes.slice(at, at + lanesPerAnnouncement),
        }),
      ),
    );
  }
  return messages;
}

/** @returns `undefined` for an invalid announcement: any client may write to a subject. */
export function decodeAnnouncement(bytes: Buffer): Announcement | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
  if (!isObject(parsed) || !isCount(parsed.partition) || !Array.isArray(parsed.lanes)) return undefined;
  const ago = parsed.committed_ago;
  if (ago !== undefined && !isCount(ago)) return undefined;
  const lanes: LaneMarks[] = [];
  for (const lane of parsed.lanes) {
    const marks = laneMarksOf(lane);
    if (marks === undefined) return undefined;
    lanes.push(marks);
  }
  const installation_id = typeof parsed.installation_id === 'string' ? parsed.installation_id : '';
  return { installation_id, partition: parsed.partition, ...(ago === undefined ? {} : { committed_ago: ago }), lanes };
}

/**
 * The oldest frame of a lane that a publisher still has: lower ones are in no journal any more, since they were
 * committed.
 */
export interface LaneFloor extends Lane {
  readonly producer_id: string;
  readonly floor: number;
  /** Frames above it that the publisher's disk has lost. */
  readonly lost?: readonly LostRange[];
}

/** What a publisher requests: the marks of the producers whose journals it has. */
export interface MarksRequest {
  readonly producerIds: ReadonlySet<string>;
  readonly floors: readonly LaneFloor[];
}

/** One list: the names first, which is all that earlier versions of ingest read. */
export function encodeMarksRequest(producerIds: Iterable<string>, floors: readonly LaneFloor[]): Buffer {
  return Buffer.from(JSON.stringify([...producerIds, ...floors]));
}

/** @returns `undefined` for an invalid request. */
export function decodeMarksRequest(bytes: Buffer): MarksRequest | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
  if (!Array.isArray(parsed)) return undefined;
  const producerIds = new Set<string>();
  const floors: LaneFloor[] = [];
  for (const one of parsed) {
    if (typeof one === 'string') producerIds.add(one);
    else if (isObject(one)) {
      const { producer_id, partition, floor } = one;
      const kind = recordKinds.find((known) => known === one.kind);
      if (kind === undefined || typeof producer_id !== 'string' || !isCount(partition) || !isCount(floor)) continue;
      const lost = lostOf(one.lost);
      floors.push({ producer_id, kind, partition, floor, ...(lost.length === 0 ? {} : { lost }) });
    }
  }
  return { producerIds, floors };
}

function laneMarksOf(value: unknown): LaneMarks | undefined {
  if (!isObject(value) || typeof value.producer_id !== 'string' || !isCount(value.partition) || !isCount(value.mark))
    return undefined;
  const kind: RecordKind | undefined = recordKinds.find((one) => one === value.kind);
  const ahead = rangesOf(value.ahead);
  if (kind === undefined || ahead === undefined) return undefined;
  return { producer_id: value.producer_id, kind, partition: value.partition, mark: value.mark, ahead };
}

/** Ranges in their JSON form, or `undefined` if they are invalid. */
export function rangesOf(value: unknown): FrameRange[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const ranges: FrameRange[] = [];
  for (const range of value) {
    if (!Array.isArray(range) || range.length !== 2 || !isCount(range[0]) || !isCount(range[1])) return undefined;
    ranges.push([range[0], range[1]]);
  }
  return ranges;
}

function lostOf(value: unknown): LostRange[] {
  if (!Array.isArray(value)) return [];
  const lost: LostRange[] = [];
  for (const range of value.slice(0, lostRangesMax)) {
    if (!Array.isArray(range)) continue;
    const [from, to, records] = range;
    if (isCount(from) && isCount(to) && isCount(records) && from > 0 && from <= to) lost.push([from, to, records]);
  }
  return lost;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
