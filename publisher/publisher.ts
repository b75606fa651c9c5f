/**
 * Publishes the frames of the journals of a machine to the log, for live and dead processes with the same code. It
 * stores no state: the journals and the marks of the sink determine where it continues.
 *
 *             ┌──────────── connected again: go back to the marks ───────────┐
 *   asking ──marks or 1 s──▶ publishing ──ack refused or late──▶ waiting ──back-off over──┘ (go back to the oldest unacknowledged)
 *
 * Invariants:
 * - At most `windowMessages` messages and `windowBytes` bytes are unacknowledged; at the bound, reading stops.
 * - The frames of a lane are published in order, those of one read in one message; after a failure, from the oldest
 *   unacknowledged frame on. JetStream drops duplicates by message id, the sink by its marks.
 * - A segment is deleted only when the sink has committed each of its frames, so a wiped log loses nothing.
 * - Marks are trusted only if they belong to the installation of the stream.
 * - A frame that the sink has skipped (it reports that it has committed everything up to a time well after the frame
 *   was acknowledged) is republished under another message id.
 */
import type { System } from '#common/journal/system.ts';
import { messageIdOf } from '#common/log/frame.ts';
import {
  decodeAnnouncement,
  encodeMarksRequest,
  type LaneFloor,
  laneKey,
  laneKeyOf,
  machineNameTaken,
} from '#common/log/marks.ts';
import type { NatsClient, NatsMessage } from '#common/stores/nats.ts';
import { sleep, type Timer } from '#common/time.ts';
import { sendingOf, writtenAt } from './frame-age.ts';
import { newScanState, type Producer, type ScanState, scanJournals } from './journal-scanner.ts';
import { LaneProgress } from './lane-progress.ts';
import type { JournalFrame } from './producer-reader.ts';
import { type FrameRunMessage, MessageCollector, PublishWindow } from './publish-window.ts';

const windowMessages = 128;
const windowBytes = 16_777_216;
const ackTimeoutMs = 5_000;
const scanIntervalMs = 250;
const progressIntervalMs = 500;
const pollMinMs = 8;
const pollMaxMs = 50;
const backoffMinMs = 100;
const backoffMaxMs = 5_000;
/** Status of the answer if no stream accepts the subject. */
const nobodyThere = 503;
const marksWaitMs = 1_000;
/** An announcement can be lost, and nothing follows it when the edge is idle. */
const marksIntervalMs = 10_000;
/** Maximum frames read per turn, so that acknowledgements are processed in between. */
const framesPerTurn = 256;
export interface PublisherOptions {
  readonly root: string;
  /** Name of this machine in its progress reports. */
  readonly machine: string;
  /** Identifies these journals, so that ingest notices two machines that report under one name. */
  readonly holder?: string;
  readonly onNameTaken?: () => void;
  readonly nats: NatsClient;
  readonly system: System;
  /** Called once per producer whose journal is damaged: what is intact is published. */
  readonly onDamage: (producerId: string, reason: string) => void;
  readonly log: (line: string) => void;
  /** Creates the stream if absent. @returns the installation that owns it; while empty, this is called again. */
  readonly ensureLog: () => Promise<string>;
}

export class Publisher {
  readonly counters = {
    messages: 0,
    frames: 0,
    bytes: 0,
    records: 0,
    acknowledged: 0,
    duplicates: 0,
    failures: 0,
    refusals: 0,
    skipped: 0,
    torn_bytes: 0,
    segments_deleted: 0,
  };
  readonly #options: PublisherOptions;
  readonly #producers = new Map<string, Producer>();
  readonly #scans: ScanState;
  readonly #lanes = new LaneProgress();
  readonly #window = new PublishWindow(windowMessages, windowBytes);
  readonly #collector = new MessageCollector((message) => this.#publish(message));
  readonly #inbox: string;
  /** Where ingest replies to a rejected progress report. */
  readonly #replies: string;
  /** JetStream's last refusal of a message; empty since it accepted one. */
  #refusal = '';
  /** The installation that owns the log; marks of others are ignored. Empty until ingest has stamped the stream. */
  #installationId = '';
  #isLearning = false;
  #backoffMs = 0;
  #waitUntil = 0;
  #scanAt = 0;
  #scanBeganAt = 0;
  /** The beginning of the last scan whose files were read to their ends, by `elapsed()`. */
  #scannedAt: number | undefined;
  #turnBeganAt = 0;
  #toldAt = 0;
  #askAt = 0;
  #pollMs = pollMinMs;
  #timer: Timer | undefined;
  #ends: (() => void)[] = [];
  #isStopped = false;
  #isRunning = false;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#scans = newScanState(options.log);
    this.#inbox = options.nats.inbox();
    this.#replies = options.nats.inbox();
  }

  async start(): Promise<void> {
    const { nats } = this.#options;
    this.#ends.push(nats.subscribe(`${this.#inbox}.*`, (message) => this.#onAck(message)));
    this.#ends.push(
      nats.subscribe(this.#replies, ({ bytes }) => {
        if (bytes.toString() === machineNameTaken) this.#options.onNameTaken?.();
      }),
    );
    const received = new Promise<void>((done) => {
      this.#ends.push(
        nats.subscribe(nats.names.marks, (message) => {
          this.#onMarks(message);
          done();
        }),
      );
    });
    this.#ends.push(nats.onReconnect(() => void this.#restart()));
    this.#installationId = await this.#options.ensureLog();
    await scanJournals(this.#options.system, this.#options.root, this.#producers, this.#scans);
    this.#askForMarks();
    await Promise.race([received, sleep(this.#options.system.time, marksWaitMs)]);
    this.#schedule(0);
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    const { time } = this.#options.system;
    time.clear(this.#timer);
    for (const end of this.#ends) end();
    while (this.#isRunning) await new Promise<void>((done) => time.atTurnEnd(done));
    // An operator who waited until everything was committed may retire the machine: its last report must show that.
    this.#tellProgress(Number.POSITIVE_INFINITY);
    for (const producer of this.#producers.values()) producer.reader.close();
  }

  /** Producers whose journal is damaged. */
  get damaged(): { producer_id: string; reason: string }[] {
    return [...this.#producers.values()]
      .filter((producer) => producer.damage !== '')
      .map((producer) => ({ producer_id: producer.reader.producerId, reason: producer.damage }));
  }

  /** Why the log rejects records; empty while it accepts them. */
  get refusal(): string {
    return this.#refusal;
  }

  get messagesInFlight(): number {
    return this.#window.messages;
  }

  /** Time up to which everything that was answered here is committed by the sink. Epoch ms; 0 while unknown. */
  get committedTo(): number {
    if (this.#scannedAt === undefined) return 0;
    const { time } = this.#options.system;
    return Math.floor(time.now() - (time.elapsed() - this.#lanes.committedTo(this.#scannedAt)));
  }

  #askForMarks(): void {
    this.#askAt = this.#options.system.time.elapsed() + marksIntervalMs;
    const producerIds = encodeMarksRequest(this.#producers.keys(), this.#floors());
    const { nats } = this.#options;
    nats.publish(nats.names.marksRequest, producerIds, { reply: nats.names.marks });
  }

  /** What the journals have and what they have lost, apart from what the sink knows to be lost. */
  #floors(): LaneFloor[] {
    const now = this.#options.system.time.elapsed();
    return [...this.#producers.values()].flatMap(({ reader }) =>
      reader.floors(now).map(({ lost = [], ...floor }) => {
        const marks = this.#lanes.marksOf(laneKey(floor.producer_id, floor));
        const unknown = lost.filter(([from, to]) => !marks.hasAll(from, to));
        return unknown.length === 0 ? floor : { ...floor, lost: unknown };
      }),
    );
  }

  /** The connection or the stream was lost, so the contents of the log are unknown. */
  async #restart(): Promise<void> {
    this.#window.clear();
    this.#waitUntil = Number.POSITIVE_INFINITY;
    this.#installationId = await this.#options.ensureLog();
    this.#askForMarks();
    this.#window.clear();
    for (const producer of this.#producers.values()) producer.reader.rewind();
    this.#waitUntil = this.#options.system.time.elapsed() + Math.max(backoffMinMs, this.#backoffMs);
  }

  #schedule(delayMs: number): void {
    if (!this.#isStopped) this.#timer = this.#options.system.time.after(delayMs, () => void this.#turn());
  }

  async #turn(): Promise<void> {
    this.#isRunning = true;
    try {
      const { time } = this.#options.system;
      const now = time.elapsed();
      this.#turnBeganAt = now;
      if (now >= this.#scanAt) {
        this.#scanBeganAt = now;
        await scanJournals(this.#options.system, this.#options.root, this.#producers, this.#scans);
        this.#scanAt = now + scanIntervalMs;
        this.#noteDamage();
        this.#expire(now);
        this.#sweep();
        this.#tellProgress(now);
        if (now >= this.#askAt) this.#askForMarks();
      }
      const isBusy = !this.#isStopped && this.#publishSome(now);
      this.#pollMs = isBusy ? pollMinMs : Math.min(pollMaxMs, this.#pollMs * 1.5);
      this.#schedule(this.#pollMs);
    } finally {
      this.#isRunning = false;
    }
  }

  #tellProgress(now: number): void {
    if (now - this.#toldAt < progressIntervalMs || this.#scannedAt === undefined) return;
    this.#toldAt = now;
    const { machine, holder, nats, system } = this.#options;
    const sent_at = Math.floor(system.time.now());
    const progress = { machine, committed_to: this.committedTo, sent_at, ...(holder === undefined ? {} : { holder }) };
    nats.publish(nats.names.progress, Buffer.from(JSON.stringify(progress)), { reply: this.#replies });
  }

  /** @returns whether there was anything to read. */
  #publishSome(now: number): boolean {
    if (now < this.#waitUntil || !this.#options.nats.isConnected) return false;
    let turns = 0;
    let isCaughtUp = true;
    let isBlocked = this.#scans.fault !== '';
    for (const producer of this.#producers.values()) {
      for (;;) {
        if (turns >= framesPerTurn || this.#window.isFullWith(this.#collector.bytes)) {
          isCaughtUp = false;
          break;
        }
        const read = producer.reader.next();
        if (read.state === 'blocked') isBlocked = true;
        if (read.state !== 'frame') break;
        turns++;
        this.#collect(producer, read.frame);
      }
      this.#collector.flush();
    }
    if (isCaughtUp && !isBlocked) this.#scannedAt = this.#scanBeganAt;
    return turns > 0 || !isCaughtUp;
  }

  #collect({ reader }: Producer, frame: JournalFrame): void {
    const key = laneKeyOf(frame.header);
    if (this.#lanes.marksOf(key).has(frame.header.frame_no)) return;
    this.#lanes.saw(frame.header, key, writtenAt(frame, reader, this.#options.system.time));
    this.#collector.add(key, reader, frame);
  }

  /** Frames that are read again may be grouped differently, under another message id: the marks drop duplicates. */
  #publish(message: FrameRunMessage): void {
    const [first] = message.headers;
    if (first === undefined) return;
    const token = this.#window.add(message, this.#turnBeganAt);
    const attempt = this.#producers.get(first.producer_id)?.attempt ?? 0;
    const last = message.headers.at(-1)?.frame_no ?? first.frame_no;
    const run = last === first.frame_no ? '' : `-${last}`;
    const messageId = `${messageIdOf(first)}${run}${attempt === 0 ? '' : `:${attempt}`}`;
    const { nats } = this.#options;
    const header = sendingOf(message, this.#options.system.time);
    nats.publish(nats.names.subjectOf(first), message.bytes, { reply: `${this.#inbox}.${token}`, messageId, header });
    this.counters.messages++;
    this.counters.bytes += message.bytes.length;
    for (const { records } of message.headers) {
      this.counters.frames++;
      this.counters.records += records;
    }
  }

  #onAck(message: NatsMessage): void {
    const token = Number(message.subject.slice(this.#inbox.length + 1));
    if (!this.#window.has(token)) return;
    const ack = message.status === 0 ? message.bytes.toString() : '';
    if (!ack.includes('"seq"') || ack.includes('"error"')) {
      this.#refused(ack);
      this.#backOff();
      if (message.status === nobodyThere) void this.#restart();
      return;
    }
    const wasFull = this.#window.isFullWith(0);
    const now = this.#options.system.time.elapsed();
    for (const header of this.#window.acknowledge(token)) {
      this.counters.acknowledged++;
      if (ack.includes('"duplicate":')) this.counters.duplicates++;
      this.#lanes.acknowledged(header, now);
    }
    this.#backoffMs = 0;
    if (this.#refusal !== '') {
      this.#refusal = '';
      this.#options.log('the log accepts records again');
    }
    if (wasFull && !this.#window.isFullWith(0)) {
      this.#options.system.time.clear(this.#timer);
      if (!this.#isRunning) this.#schedule(0);
    }
  }

  /** Logs one line when refusals begin; publishing is retried for as long as necessary. */
  #refused(ack: string): void {
    const reason = /"description":"([^"]{1,200})/.exec(ack)?.[1];
    if (reason === undefined) return;
    this.counters.refusals++;
    if (this.#refusal === '') this.#options.log(`the log refuses records, which wait in the journals: ${reason}`);
    this.#refusal = reason;
  }

  /** An acknowledgement that never arrives counts as a refusal. */
  #expire(now: number): void {
    const oldest = this.#window.oldestSentAt;
    if (oldest !== undefined && now - oldest > ackTimeoutMs) this.#backOff();
  }

  /** The log refuses or does not answer: wait, then continue from the oldest unacknowledged frame. */
  #backOff(): void {
    this.counters.failures++;
    this.#backoffMs = Math.min(backoffMaxMs, Math.max(backoffMinMs, this.#backoffMs * 2));
    this.#waitUntil = this.#options.system.time.elapsed() + this.#backoffMs;
    this.#window.rewind();
  }

  #onMarks(message: NatsMessage): void {
    const announcement = decodeAnnouncement(message.bytes);
    if (announcement === undefined) return;
    if (announcement.installation_id !== this.#installationId) {
      if (this.#installationId === '') void this.#learnInstallation();
      return;
    }
    this.#lanes.announced(announcement, (producerId) => this.#producers.has(producerId));
    for (const { key, producerId, mark } of this.#lanes.skipped(announcement, this.#options.system.time.elapsed())) {
      const producer = this.#producers.get(producerId);
      if (producer === undefined) continue;
      producer.attempt++;
      this.counters.skipped++;
      this.#options.log(`${key} was skipped by the sink after frame ${mark}: publishing it again`);
      producer.reader.rewind();
    }
  }

  /** Reads the id that ingest has stamped since the stream was created here. */
  async #learnInstallation(): Promise<void> {
    if (this.#isLearning) return;
    this.#isLearning = true;
    this.#installationId = await this.#options.ensureLog();
    this.#isLearning = false;
    if (this.#installationId !== '') this.#askForMarks();
  }

  #noteDamage(): void {
    for (const producer of this.#producers.values()) {
      const { damage, producerId } = producer.reader;
      if (producer.damage === '' && damage !== '') this.#options.onDamage(producerId, damage);
      producer.damage = damage;
    }
  }

  /** Deletes what the sink has committed, except files with damaged places, and of dead producers whose loss is not counted. */
  #sweep(): void {
    for (const [producerId, producer] of this.#producers) {
      const { reader } = producer;
      if (!reader.isAlive && reader.lacksAny((key) => this.#lanes.marksOf(key))) continue;
      for (;;) {
        const { oldest } = reader;
        if (oldest === undefined || !oldest.isFinished) break;
        if (![...oldest.frames].every(([key, seen]) => this.#lanes.marksOf(key).hasAll(seen.first, seen.last))) break;
        if (!reader.removeOldest()) break;
        this.counters.torn_bytes += oldest.tornBytes;
        this.counters.segments_deleted++;
      }
      if (reader.isAlive || reader.segments.length > 0) continue;
      reader.removeFolder();
      this.#producers.delete(producerId);
      this.#lanes.forget(producerId);
    }
  }
}
