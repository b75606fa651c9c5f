/**
 * Messages that a publisher has sent and the log has not acknowledged. A message has one or more consecutive frames of
 * a lane: the cost of a message in the log hardly depends on its size, and an edge writes a frame per turn of its event
 * loop.
 *
 * The NATS client cannot do this: it returns a promise per message, while here unacknowledged data is bounded in bytes
 * as well as in messages, and each reader goes back to its oldest frame when an acknowledgement is missing.
 */
import { type FrameHeader, frameBytesMax } from '#common/log/frame.ts';
import { TransientMap } from '#common/transient-map.ts';
import type { JournalFrame, Position, ProducerReader } from './producer-reader.ts';

/**
 * Frames of one lane that are sent together: consecutive numbers, so that the first and the last identify the content.
 */
export interface FrameRunMessage {
  readonly reader: ProducerReader;
  /** The position of its first frame. */
  readonly position: Position;
  readonly headers: readonly FrameHeader[];
  readonly bytes: Buffer;
}

interface OpenMessage {
  readonly reader: ProducerReader;
  readonly frames: JournalFrame[];
  bytes: number;
}

/** Collects the frames of one read by lane. */
export class MessageCollector {
  #open = new Map<string, OpenMessage>();
  readonly #send: (message: FrameRunMessage) => void;
  #bytes = 0;

  constructor(send: (message: FrameRunMessage) => void) {
    this.#send = send;
  }

  add(laneKey: string, reader: ProducerReader, frame: JournalFrame): void {
    let message = this.#open.get(laneKey);
    if (message !== undefined && !isNext(message, frame)) {
      this.#close(message);
      message = undefined;
    }
    if (message === undefined) {
      message = { reader, frames: [], bytes: 0 };
      this.#open.set(laneKey, message);
    }
    message.frames.push(frame);
    message.bytes += frame.bytes.length;
    this.#bytes += frame.bytes.length;
  }

  /** Bytes that were collected and not sent. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Sends what was collected. */
  flush(): void {
    for (const message of this.#open.values()) this.#close(message);
    this.#open = new Map();
  }

  #close({ reader, frames, bytes }: OpenMessage): void {
    const [first] = frames;
    this.#bytes -= bytes;
    if (first === undefined) return;
    this.#send({
      reader,
      position: first.position,
      headers: frames.map((frame) => frame.header),
      bytes: joined(first.bytes, frames, bytes),
    });
  }
}

/** Frames that were read together lie one after the other in memory, and need no copy. */
function joined(first: Buffer, frames: readonly JournalFrame[], length: number): Buffer {
  let end = first.byteOffset;
  for (const { bytes } of frames) {
    if (bytes.buffer !== first.buffer || bytes.byteOffset !== end) {
      return Buffer.concat(
        frames.map((frame) => frame.bytes),
        length,
      );
    }
    end += bytes.length;
  }
  return Buffer.from(first.buffer, first.byteOffset, length);
}

function isNext(message: OpenMessage, frame: JournalFrame): boolean {
  const last = message.frames.at(-1)?.header.frame_no ?? 0;
  return frame.header.frame_no === last + 1 && message.bytes + frame.bytes.length <= frameBytesMax;
}

interface Unacknowledged {
  readonly reader: ProducerReader;
  readonly position: Position;
  readonly headers: readonly FrameHeader[];
  readonly bytes: number;
  readonly sentAt: number;
}

export class PublishWindow {
  readonly #messagesMax: number;
  readonly #bytesMax: number;
  #sent = new TransientMap<number, Unacknowledged>();
  #bytes = 0;
  #token = 0;

  constructor(messagesMax: number, bytesMax: number) {
    this.#messagesMax = messagesMax;
    this.#bytesMax = bytesMax;
  }

  get messages(): number {
    return this.#sent.size;
  }

  /** Whether reading must stop while this many bytes are about to be sent. */
  isFullWith(bytes: number): boolean {
    return this.#sent.size >= this.#messagesMax || this.#bytes + bytes >= this.#bytesMax;
  }

  /** When the oldest was sent; `undefined` if nothing is unacknowledged. */
  get oldestSentAt(): number | undefined {
    for (const { sentAt } of this.#sent.values()) return sentAt;
    return undefined;
  }

  /** @returns the token by which it is acknowledged. */
  add({ reader, position, headers, bytes }: FrameRunMessage, sentAt: number): number {
    const token = ++this.#token;
    this.#sent.set(token, { reader, position, headers, bytes: bytes.length, sentAt });
    this.#bytes += bytes.length;
    return token;
  }

  has(token: number): boolean {
    return this.#sent.get(token) !== undefined;
  }

  /** @returns the headers of the frames that the log has now. */
  acknowledge(token: number): readonly FrameHeader[] {
    const sent = this.#sent.get(token);
    if (sent === undefined) return [];
    this.#sent.delete(token);
    this.#bytes -= sent.bytes;
    return sent.headers;
  }

  /** Forgets everything. */
  clear(): void {
    this.#sent = new TransientMap();
    this.#bytes = 0;
  }

  /** Forgets everything, and makes each reader go back to the first unacknowledged frame. */
  rewind(): void {
    const oldest = new Map<ProducerReader, Position>();
    for (const { reader, position } of this.#sent.values()) {
      const known = oldest.get(reader);
      if (known === undefined || isBefore(position, known)) oldest.set(reader, position);
    }
    this.clear();
    for (const [reader, position] of oldest) reader.rewind(position);
  }
}

function isBefore(one: Position, other: Position): boolean {
  return one.segment < other.segment || (one.segment === other.segment && one.offset < other.offset);
}
