/**
 * The publisher carries frames from the journals of a machine to the log: those of living processes and of dead ones, by the
 * same code. It keeps nothing of its own: where it must go on is said by the journals and by the sink's marks.
 *
 *             ┌──────────── connected again: go back to the marks ───────────┐
 *   asking ──marks or 1 s──▶ publishing ──ack refused or late──▶ waiting ──back-off over──┘ (go back to the oldest unacknowledged)
 *
 * Must stay true:
 * - At most `windowFrames` frames and `windowBytes` bytes are unacknowledged; at the bound reading stops.
 * - A lane's frames are published in their order; after a failure from the oldest unacknowledged on. JetStream drops what it
 *   has already by the message id, the sink by its marks.
 * - A segment is deleted only when each of its frames is at or below a mark of the sink, so a wiped log loses nothing.
 * - A frame that the sink has passed over (it says that it has committed everything up to a time well after the frame was
 *   acknowledged) is published again under another message id.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '#common/clock.ts';
import type { Nats, NatsMessage } from '#common/nats.ts';
import { messageIdOf, subjectOf } from './frame.ts';
import {
  type Announcement,
  decodeAnnouncement,
  FrameSet,
  laneKey,
  laneKeyOf,
  marksRequestSubject,
  marksSubject,
  progressSubject,
} from './marks.ts';
import { type JournalFrame, type Position, ProducerReader } from './producer-reader.ts';
import { ProgressLog } from './progress-log.ts';
import { isFolderHeld } from './slot-lock.ts';

const windowFrames = 128;
const windowBytes = 16_777_216;
const ackTimeoutMs = 5_000;
const scanIntervalMs = 250;
const progressIntervalMs = 500;
const pollMinMs = 4;
const pollMaxMs = 50;
const backoffMinMs = 100;
const backoffMaxMs = 5_000;
/** Status of an answer when no stream takes the subject. */
const nobodyThere = 503;
const marksWaitMs = 1_000;
/** Frames read in one turn, so that acknowledgements are heard in between. */
const framesPerTurn = 256;
/** How far behind the sink's time an uncommitted frame counts as passed over; clocks of machines differ. */
const passedOverMs = 60_000;

interface InFlight {
  readonly producer: Producer;
  readonly frame: JournalFrame;
  readonly sentAt: number;
}

class Producer {
  readonly slot: string;
  readonly reader: ProducerReader;
  /** Added to message ids once the sink has passed over a frame. */
  attempt = 0;
  damage = '';
  constructor(slot: string, reader: ProducerReader) {
    this.slot = slot;
    this.reader = reader;
  }
}

export interface PublisherOptions {
  readonly root: string;
  /** Name of this machine in what is told of its progress. */
  readonly machine: string;
  readonly nats: Nats;
  readonly clock: Clock;
  /** Told once per producer whose journal can't be read on. */
  readonly onDamage: (producerId: string, reason: string) => void;
  readonly log: (line: string) => void;
  /** Makes the stream if it is not there. Called after each connection and while nobody answers. */
  readonly ensureLog: () => Promise<void>;
}

export class Publisher {
  readonly counters = {
    frames: 0,
    bytes: 0,
    records: 0,
    acknowledged: 0,
    duplicates: 0,
    failures: 0,
    passed_over: 0,
    torn_bytes: 0,
    segments_deleted: 0,
  };
  readonly #options: PublisherOptions;
  readonly #producers = new Map<string, Producer>();
  readonly #committed = new Map<string, FrameSet>();
  readonly #progress = new Map<string, ProgressLog>();
  readonly #inFlight = new Map<number, InFlight>();
  #inFlightBytes = 0;
  #token = 0;
  readonly #inbox: string;
  #backoffMs = 0;
  #waitUntil = 0;
  #scanAt = 0;
  #scannedAt = 0;
  #toldAt = 0;
  #pollMs = pollMinMs;
  #timer: NodeJS.Timeout | undefined;
  #ends: (() => void)[] = [];
  #isStopped = false;
  #isRunning = false;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#inbox = options.nats.inbox();
  }

  async start(): Promise<void> {
    const { nats } = this.#options;
    this.#ends.push(nats.subscribe(`${this.#inbox}.*`, (message) => this.#onAck(message)));
    const heard = new Promise<void>((done) => {
      this.#ends.push(
        nats.subscribe(marksSubject, (message) => {
          this.#onMarks(message);
          done();
        }),
      );
    });
    nats.onReconnect(() => void this.#restart());
    await this.#options.ensureLog();
    await this.#scan();
    this.#askForMarks();
    await Promise.race([heard, new Promise((done) => setTimeout(done, marksWaitMs))]);
    this.#schedule(0);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    for (const end of this.#ends) end();
    while (this.#isRunning) await new Promise((done) => setImmediate(done));
    for (const producer of this.#producers.values()) producer.reader.close();
  }

  /** Producers whose journal is damaged. */
  get damaged(): { producer_id: string; reason: string }[] {
    return [...this.#producers.values()]
      .filter((producer) => producer.damage !== '')
      .map((producer) => ({ producer_id: producer.reader.producerId, reason: producer.damage }));
  }

  get framesInFlight(): number {
    return this.#inFlight.size;
  }

  /** Time up to which everything that was answered on this machine is committed by the sink. Epoch ms. */
  get committedTo(): number {
    let to = this.#scannedAt;
    for (const [key, progress] of this.#progress)
      to = Math.min(to, progress.committedTo(this.#marksOf(key).mark) ?? to);
    return to;
  }

  #askForMarks(): void {
    const producerIds = Buffer.from(JSON.stringify([...this.#producers.keys()]));
    this.#options.nats.publish(marksRequestSubject, producerIds, { reply: marksSubject });
  }

  /** The connection or the stream was away: what the log has is not known any more. */
  async #restart(): Promise<void> {
    this.#forgetInFlight();
    this.#waitUntil = Number.POSITIVE_INFINITY;
    await this.#options.ensureLog();
    this.#askForMarks();
    this.#forgetInFlight();
    for (const producer of this.#producers.values()) producer.reader.rewind();
    this.#waitUntil = this.#options.clock() + Math.max(backoffMinMs, this.#backoffMs);
  }

  #schedule(delayMs: number): void {
    if (!this.#isStopped) this.#timer = setTimeout(() => void this.#turn(), delayMs);
  }

  async #turn(): Promise<void> {
    this.#isRunning = true;
    try {
      const now = this.#options.clock();
      if (now >= this.#scanAt) {
        await this.#scan();
        this.#scanAt = now + scanIntervalMs;
        this.#expire(now);
        this.#sweep();
        this.#tellProgress(now);
      }
      const isBusy = !this.#isStopped && this.#publishSome(now);
      this.#pollMs = isBusy ? pollMinMs : Math.min(pollMaxMs, this.#pollMs * 1.5);
      this.#schedule(this.#pollMs);
    } finally {
      this.#isRunning = false;
    }
  }

  #tellProgress(now: number): void {
    if (now - this.#toldAt < progressIntervalMs || this.#scannedAt === 0) return;
    this.#toldAt = now;
    const progress = { machine: this.#options.machine, committed_to: this.committedTo };
    this.#options.nats.publish(progressSubject, Buffer.from(JSON.stringify(progress)));
  }

  /** Finds new producers and segments, and learns which producers are dead. */
  async #scan(): Promise<void> {
    for (const slot of folders(this.#options.root)) {
      const slotFolder = join(this.#options.root, slot);
      // The lock first: what is on disk after it was found free is all that there will be.
      const isHeld = await isFolderHeld(slotFolder);
      const producerIds = folders(slotFolder).sort();
      const newest = producerIds.at(-1);
      for (const producerId of producerIds) {
        let producer = this.#producers.get(producerId);
        if (producer === undefined) {
          producer = new Producer(slot, new ProducerReader(join(slotFolder, producerId), producerId));
          this.#producers.set(producerId, producer);
        }
        producer.reader.scan();
        producer.reader.isAlive = isHeld && producerId === newest;
      }
    }
  }

  /** @returns whether there was anything to read. */
  #publishSome(now: number): boolean {
    if (now < this.#waitUntil || !this.#options.nats.isConnected) return false;
    let turns = 0;
    let isCaughtUp = true;
    for (const producer of this.#producers.values()) {
      if (producer.damage !== '') continue;
      for (;;) {
        if (turns >= framesPerTurn || this.#inFlight.size >= windowFrames || this.#inFlightBytes >= windowBytes) {
          isCaughtUp = false;
          break;
        }
        const read = producer.reader.next();
        if (read.state === 'end') break;
        if (read.state === 'damaged') {
          producer.damage = read.reason;
          this.#options.onDamage(producer.reader.producerId, read.reason);
          break;
        }
        turns++;
        this.#publish(producer, read.frame, now);
      }
    }
    if (isCaughtUp) this.#scannedAt = Math.min(now, this.#scanAt - scanIntervalMs);
    return turns > 0 || !isCaughtUp;
  }

  #publish(producer: Producer, frame: JournalFrame, now: number): void {
    const key = laneKeyOf(frame.header);
    if (this.#marksOf(key).has(frame.header.frame_no)) return;
    this.#progressOf(key).saw(frame.header.frame_no, frame.header.written_at);
    const token = ++this.#token;
    this.#inFlight.set(token, { producer, frame, sentAt: now });
    this.#inFlightBytes += frame.bytes.length;
    const messageId = messageIdOf(frame.header) + (producer.attempt === 0 ? '' : `:${producer.attempt}`);
    this.#options.nats.publish(subjectOf(frame.header), frame.bytes, { reply: `${this.#inbox}.${token}`, messageId });
    this.counters.frames++;
    this.counters.records += frame.header.records;
    this.counters.bytes += frame.bytes.length;
  }

  #onAck(message: NatsMessage): void {
    const token = Number(message.subject.slice(this.#inbox.length + 1));
    const sent = this.#inFlight.get(token);
    if (sent === undefined) return;
    const ack = message.status === 0 ? message.bytes.toString() : '';
    if (!ack.includes('"seq"') || ack.includes('"error"')) {
      this.#backOff();
      if (message.status === nobodyThere) void this.#restart();
      return;
    }
    this.#inFlight.delete(token);
    this.#inFlightBytes -= sent.frame.bytes.length;
    this.#backoffMs = 0;
    this.counters.acknowledged++;
    if (ack.includes('"duplicate":')) this.counters.duplicates++;
    this.#progressOf(laneKeyOf(sent.frame.header)).acknowledged(sent.frame.header.frame_no, this.#options.clock());
    if (this.#inFlight.size === windowFrames - 1) {
      clearTimeout(this.#timer);
      if (!this.#isRunning) this.#schedule(0);
    }
  }

  /** An acknowledgement that never comes is one that was refused. */
  #expire(now: number): void {
    for (const sent of this.#inFlight.values()) {
      if (now - sent.sentAt > ackTimeoutMs) this.#backOff();
      return;
    }
  }

  /** The log refuses or is silent: wait, then go on from the oldest frame that it has not acknowledged. */
  #backOff(): void {
    this.counters.failures++;
    this.#backoffMs = Math.min(backoffMaxMs, Math.max(backoffMinMs, this.#backoffMs * 2));
    this.#waitUntil = this.#options.clock() + this.#backoffMs;
    const oldest = new Map<Producer, Position>();
    for (const { producer, frame } of this.#inFlight.values()) {
      if (!oldest.has(producer)) oldest.set(producer, frame.position);
    }
    this.#forgetInFlight();
    for (const [producer, position] of oldest) producer.reader.rewind(position);
  }

  #forgetInFlight(): void {
    this.#inFlight.clear();
    this.#inFlightBytes = 0;
  }

  #onMarks(message: NatsMessage): void {
    const announcement = decodeAnnouncement(message.bytes);
    if (announcement === undefined) return;
    for (const lane of announcement.lanes) {
      const key = laneKey(lane.producer_id, lane);
      if (!this.#producers.has(lane.producer_id)) continue;
      const known = this.#committed.get(key);
      if (known === undefined || known.mark <= lane.mark) this.#committed.set(key, new FrameSet(lane.mark, lane.ahead));
      this.#progress.get(key)?.forget(lane.mark);
    }
    this.#lookForPassedOver(announcement);
  }

  #lookForPassedOver(announcement: Announcement): void {
    for (const producer of this.#producers.values()) {
      for (const [key, progress] of this.#progress) {
        if (!key.startsWith(producer.reader.producerId) || !key.endsWith(`:${announcement.partition}`)) continue;
        if (!progress.isPassedOver(this.#marksOf(key), announcement.committed_to - passedOverMs)) continue;
        producer.attempt++;
        this.counters.passed_over++;
        this.#options.log(
          `${key} was passed over by the sink after frame ${this.#marksOf(key).mark}: publishing it again`,
        );
        progress.publishAgain();
        producer.reader.rewind();
      }
    }
  }

  /** Deletes what the sink has committed. */
  #sweep(): void {
    for (const [producerId, producer] of this.#producers) {
      const { reader } = producer;
      for (;;) {
        const first = reader.segments[0];
        if (first === undefined || !first.isFinished) break;
        if (![...first.last].every(([key, frameNo]) => this.#marksOf(key).mark >= frameNo)) break;
        reader.removeFirst();
        this.counters.segments_deleted++;
      }
      if (reader.isAlive || reader.segments.length > 0 || producer.damage !== '') continue;
      this.counters.torn_bytes += reader.tornBytes;
      reader.removeFolder();
      this.#producers.delete(producerId);
      for (const key of [...this.#progress.keys(), ...this.#committed.keys()]) {
        if (!key.startsWith(producerId)) continue;
        this.#progress.delete(key);
        this.#committed.delete(key);
      }
    }
  }

  #marksOf(key: string): FrameSet {
    return this.#committed.get(key) ?? nothing;
  }

  #progressOf(key: string): ProgressLog {
    let progress = this.#progress.get(key);
    if (progress === undefined) {
      progress = new ProgressLog();
      this.#progress.set(key, progress);
    }
    return progress;
  }
}

const nothing = new FrameSet();

/** Names of the folders in a folder; none if it is not there yet. */
function folders(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name);
  } catch {
    return [];
  }
}
