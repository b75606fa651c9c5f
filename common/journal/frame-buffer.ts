/**
 * The records appended in one turn of the event loop: a frame per lane, more if it is large, in one buffer that is
 * reused.
 */
import {
  encodeFrame,
  encodeHeader,
  type FrameHeader,
  frameBytesMax,
  frameHeaderBytes,
  frameRecordsMax,
  type Lane,
} from '#common/log/frame.ts';
import { type RecordKind, recordCharsMax } from '#common/log/record.ts';

/** Open lanes of this process, created by `Journal.lane`. */
export interface JournalLane extends Lane {
  frame_no: number;
  records: number;
  text: string;
}

/** UTF-8 takes at most three bytes for one UTF-16 code unit. */
const bytesPerChar = 3;
const frameCharsMax = Math.floor((frameBytesMax - frameHeaderBytes) / bytesPerChar);
/** Maximum characters of one turn; a turn that exceeds it is far beyond what a core can answer. */
export const groupCharsMax = 5_000_000;
const firstBytes = 1_048_576;

/**
 * Records around bytes share a frame until its payload has this many bytes: each frame is a write, a checksum and an entry in the
 * marks. So a frame has at most a few hundred events more than the largest batch.
 */
const sharedBytesMax = 32_768;

/** Characters that a record uses of a turn's maximum; infinite if it is too long for a turn. */
export function roomOf(json: string): number {
  const chars = json.length + 1;
  return chars > recordCharsMax ? Number.POSITIVE_INFINITY : chars;
}

/** As `roomOf`, for a record whose middle is bytes of UTF-8, one character each. */
export function roomAround(head: string, body: string, tail: string): number {
  const room = bytesPerChar * (head.length + tail.length + 1) + body.length;
  return room > frameBytesMax - frameHeaderBytes ? Number.POSITIVE_INFINITY : room;
}

export class FrameBuffer {
  readonly #now: () => number;
  readonly #lanes: JournalLane[] = [];
  #producer = '';
  #out = Buffer.allocUnsafeSlow(firstBytes);
  #outBytes = 0;
  #chars = 0;
  #frames = 0;
  /** The lane of a frame at the end of the buffer that has no header yet, and where it begins. */
  #openLane: JournalLane | null = null;
  #openAt = 0;

  /** @param now the wall clock with which frames are stamped, in epoch ms. */
  constructor(now: () => number) {
    this.#now = now;
  }

  lane(kind: RecordKind, partition: number): JournalLane {
    const known = this.#lanes.find((lane) => lane.kind === kind && lane.partition === partition);
    if (known !== undefined) return known;
    const lane = { kind, partition, frame_no: 0, records: 0, text: '' };
    this.#lanes.push(lane);
    return lane;
  }

  /**
   * From now on, frames belong to another producer and are counted from 1. Nothing may have been added since `take`.
   */
  begin(producer: string): void {
    this.#producer = producer;
    for (const lane of this.#lanes) lane.frame_no = 0;
  }

  /** Whether the turn has room for this many more characters. */
  hasRoom(chars: number): boolean {
    return this.#chars + chars <= groupCharsMax;
  }

  /** @returns whether the record was accepted: neither it nor the turn is too long. */
  add(lane: JournalLane, json: string): boolean {
    const chars = roomOf(json);
    if (!this.hasRoom(chars)) return false;
    if (lane === this.#openLane) this.#closeFrame();
    if (lane.records === frameRecordsMax || lane.text.length + chars > frameCharsMax) this.#seal(lane);
    lane.text += `${json}\n`;
    lane.records++;
    this.#chars += chars;
    return true;
  }

  /**
   * As `add`, for a record whose middle is bytes of UTF-8 without line breaks, one character each. It is written at once, into a
   * frame that the next such records share.
   */
  addAround(lane: JournalLane, head: string, body: string, tail: string): boolean {
    const room = roomAround(head, body, tail);
    if (!this.hasRoom(room)) return false;
    const used = this.#outBytes - this.#openAt;
    if (lane !== this.#openLane || lane.records === frameRecordsMax || used + room > sharedBytesMax) {
      if (lane !== this.#openLane && lane.records > 0) this.#seal(lane);
      this.#openFrame(lane);
    }
    this.#makeRoom(room);
    let end = this.#outBytes;
    end += this.#out.write(head, end, 'utf8');
    end += this.#out.write(body, end, 'latin1');
    end += this.#out.write(`${tail}\n`, end, 'utf8');
    this.#outBytes = end;
    lane.records++;
    this.#chars += room;
    return true;
  }

  /** The frames of the turn. The next turn overwrites the bytes. */
  take(): { readonly bytes: Buffer; readonly frames: number } {
    this.#closeFrame();
    for (const lane of this.#lanes) if (lane.records > 0) this.#seal(lane);
    const taken = { bytes: this.#out.subarray(0, this.#outBytes), frames: this.#frames };
    this.#outBytes = 0;
    this.#chars = 0;
    this.#frames = 0;
    return taken;
  }

  /** Turns the collected records of a lane into a frame. */
  #seal(lane: JournalLane): void {
    this.#closeFrame();
    this.#makeRoom(frameHeaderBytes + bytesPerChar * lane.text.length);
    this.#outBytes += encodeFrame(this.#out, this.#outBytes, this.#nextHeader(lane), lane.text);
    lane.text = '';
  }

  #openFrame(lane: JournalLane): void {
    this.#closeFrame();
    this.#makeRoom(frameHeaderBytes);
    this.#openLane = lane;
    this.#openAt = this.#outBytes;
    this.#outBytes += frameHeaderBytes;
  }

  #closeFrame(): void {
    const lane = this.#openLane;
    if (lane === null) return;
    this.#openLane = null;
    encodeHeader(this.#out, this.#openAt, this.#nextHeader(lane), this.#outBytes - this.#openAt - frameHeaderBytes);
  }

  #nextHeader(lane: JournalLane): Omit<FrameHeader, 'payloadBytes'> {
    lane.frame_no++;
    this.#frames++;
    const { kind, partition, frame_no, records } = lane;
    lane.records = 0;
    return { kind, partition, frame_no, records, producer_id: this.#producer, written_at: this.#now() };
  }

  #makeRoom(bytes: number): void {
    if (this.#out.length - this.#outBytes >= bytes) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#out.length * 2, this.#outBytes + bytes));
    this.#out.copy(larger, 0, 0, this.#outBytes);
    this.#out = larger;
  }
}
