/**
 * Reads one partition of the log from a point in time, through a consumer that is replaced whenever its state is in
 * doubt.
 *
 *   stopped ──start(time)──▶ creating ──created──▶ pulling ──┐ buffer full: no pull until there is room
 *                              ▲ ▲                    │      │
 *                              │ └─back-off─ refused ◀┘◀─────┘
 *                              └──── reconnect, silence, a delivery missing, consumer gone: start again at the
 *                                    committed time
 *
 * Invariant: the reader never decides what was committed. The marks drop everything that is delivered twice, so
 * restarting too early is harmless. Stream sequences and acknowledgement state, which go back if a server loses its
 * tail, are never used. This is why the reader is written by hand: the ordered consumer of the NATS client resumes from
 * sequences and has its own timers.
 */
import { randomUUID } from 'node:crypto';
import { isObject } from '#common/json-object.ts';
import { frameRecordsMax, readFrame } from '#common/log/frame.ts';
import type { RecordKind } from '#common/log/record.ts';
import { decodeSending, sendingHeader } from '#common/log/sending.ts';
import type { NatsClient, NatsMessage } from '#common/stores/nats.ts';
import type { Time, Timer } from '#common/time.ts';
import { CommittedSequence } from './committed-sequence.ts';
import type { LogFrame } from './formed-batch.ts';
import { isOfNow, rightTime, type StoreTimes, unknownTimes, withTime } from './frame-clock.ts';

export interface LogReaderOptions {
  readonly nats: NatsClient;
  readonly time: Time;
  readonly partition: number;
  readonly storeTimes?: StoreTimes | undefined;
  /** Only frames of this kind; all frames if absent. */
  readonly kind?: RecordKind;
  /** Stream time (epoch ms) at which to begin; read at each start. 0: the beginning. */
  readonly position: () => number;
  /** Receives a frame. Returns whether more frames may follow now; if not, reading continues at `resume`. */
  readonly onFrame: (frame: LogFrame) => boolean;
  /** How many frames were taken, and how many of those are committed; for `committedSequence`. */
  readonly frames?: { readonly taken: () => number; readonly committed: () => number };
  /** Called when everything in the log was delivered. */
  readonly onCaughtUp: () => void;
  readonly log: (line: string) => void;
}

/**
 * Reading begins this long before the committed time, because messages may be stored in another order than their
 * timestamps.
 */
const marginMs = 120_000;
const pullMessages = 256;
const pullBytes = 8_388_608;
const pullExpiresMs = 2_000;
const heartbeatMs = 1_000;
const silenceMs = 4_000;
const watchMs = 500;
const restartDelayMs = 250;
const nanosPerMs = 1_000_000;
const inactiveThresholdMs = 30_000;

/** Number of tokens in a delivery's reply subject without a domain. docs.nats.io, "JetStream wire API", MSG.NEXT. */
const tokensOfDelivery = 9;

interface Delivery {
  readonly streamSequence: number;
  readonly consumerSequence: number;
  readonly streamTime: number;
  readonly pending: number;
}

function deliveryOf(reply: string): Delivery | undefined {
  const tokens = reply.split('.');
  const from = tokens.length === tokensOfDelivery ? 4 : 6;
  if (tokens.length < tokensOfDelivery || tokens[0] !== '$JS') return undefined;
  return {
    streamSequence: Number(tokens[from + 1]),
    consumerSequence: Number(tokens[from + 2]),
    streamTime: Math.floor(Number(tokens[from + 3]) / nanosPerMs),
    pending: Number(tokens[from + 4]),
  };
}

/** The initial position of a new consumer: everything before it is older than the committed time. */
function sequenceBefore(answer: string): number {
  const parsed: unknown = JSON.parse(answer);
  const delivered = isObject(parsed) ? parsed.delivered : undefined;
  return isObject(delivered) ? Number(delivered.stream_seq ?? 0) : 0;
}

/** How far a reader is, for the feed of recent clicks, which uses the frames of its partition's reader. */
export interface ReaderProgress {
  /** `time.elapsed()` when everything in the log had last been delivered. */
  readonly caughtUpAt: number;
}

export class LogReader implements ReaderProgress {
  readonly counters = { messages: 0, bad_messages: 0, wrong_clocks: 0, restarts: 0 };
  caughtUpAt = Number.NEGATIVE_INFINITY;
  readonly #options: LogReaderOptions;
  #generation = 0;
  #consumer = '';
  #unsubscribe: (() => void) | undefined;
  #endReconnect: (() => void) | undefined;
  #inbox = '';
  #expected = 1;
  #outstanding = 0;
  #isPulling = false;
  #mayPull = true;
  #heardAt = 0;
  #wasHeard = false;
  #watch: Timer | undefined;
  #restart: Timer | undefined;
  #isStarted = false;
  readonly #committed = new CommittedSequence();
  readonly #committedTime = new CommittedSequence();

  constructor(options: LogReaderOptions) {
    this.#options = options;
  }

  /** Every message of the partition up to this stream sequence is committed; `undefined` while unknown. */
  get committedSequence(): number | undefined {
    const { frames } = this.#options;
    return frames === undefined || this.#consumer === '' ? undefined : this.#committed.at(frames.committed());
  }

  /** `time.elapsed()` at which everything that the log had is committed; `undefined` while unknown. */
  get committedAt(): number | undefined {
    const { frames } = this.#options;
    return frames === undefined || this.#consumer === '' ? undefined : this.#committedTime.at(frames.committed());
  }

  start(): void {
    this.#isStarted = true;
    this.#endReconnect = this.#options.nats.onReconnect(() => this.#again('the connection was lost'));
    this.#watch = this.#options.time.every(watchMs, () => this.#lookForSilence());
    void this.#create();
  }

  stop(): void {
    this.#isStarted = false;
    this.#generation++;
    this.#endReconnect?.();
    this.#options.time.clear(this.#watch);
    this.#options.time.clear(this.#restart);
    this.#forget();
  }

  /** Call when there is room for frames again. */
  resume(): void {
    this.#mayPull = true;
    if (this.#isStarted && this.#consumer !== '' && !this.#isPulling) this.#pull();
  }

  /** Restarts from the committed time. */
  #again(reason: string): void {
    if (!this.#isStarted) return;
    this.counters.restarts++;
    this.#options.log(`reading partition ${this.#options.partition} again: ${reason}`);
    this.#generation++;
    this.#forget();
    this.#options.time.clear(this.#restart);
    this.#restart = this.#options.time.after(restartDelayMs, () => void this.#create());
  }

  #forget(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    const { nats } = this.#options;
    if (this.#consumer !== '') nats.publish(nats.names.api('CONSUMER.DELETE', this.#consumer), Buffer.alloc(0));
    this.#consumer = '';
    this.#committed.forget();
    this.#committedTime.forget();
    this.#isPulling = false;
  }

  async #create(): Promise<void> {
    const generation = ++this.#generation;
    const { nats, partition, position, kind } = this.#options;
    const from = position();
    const name = randomUUID();
    const config = {
      name,
      ack_policy: 'none',
      replay_policy: 'instant',
      filter_subject: nats.names.subjectsOf(partition, kind),
      inactive_threshold: inactiveThresholdMs * nanosPerMs,
      mem_storage: true,
      num_replicas: 1,
      max_waiting: 8,
      ...(from === 0
        ? { deliver_policy: 'all' }
        : { deliver_policy: 'by_start_time', opt_start_time: new Date(from - marginMs).toISOString() }),
    };
    const answer = await nats.request(
      nats.names.api('CONSUMER.CREATE', name),
      Buffer.from(JSON.stringify({ stream_name: nats.names.stream, config, action: 'create' })),
    );
    if (generation !== this.#generation || !this.#isStarted) return;
    const text = answer?.status === 0 ? answer.bytes.toString() : '';
    if (text === '' || text.includes('"error"')) {
      this.#again(text === '' ? 'JetStream does not answer' : text.slice(0, 200));
      return;
    }
    this.#consumer = name;
    this.#reached(sequenceBefore(text));
    this.#inbox = nats.inbox();
    this.#unsubscribe = nats.subscribe(this.#inbox, (message) => this.#onMessage(message));
    this.#expected = 1;
    this.#wasHeard = true;
    if (this.#mayPull) this.#pull();
  }

  #pull(): void {
    this.#isPulling = true;
    this.#outstanding = pullMessages;
    this.#wasHeard = true;
    const { nats } = this.#options;
    const request = {
      batch: pullMessages,
      max_bytes: pullBytes,
      expires: pullExpiresMs * nanosPerMs,
      idle_heartbeat: heartbeatMs * nanosPerMs,
    };
    nats.publish(nats.names.api('CONSUMER.MSG.NEXT', this.#consumer), Buffer.from(JSON.stringify(request)), {
      reply: this.#inbox,
    });
  }

  #onMessage(message: NatsMessage): void {
    this.#wasHeard = true;
    const delivery = deliveryOf(message.reply);
    if (delivery === undefined) {
      this.#onStatus(message.status);
      return;
    }
    if (delivery.consumerSequence !== this.#expected) {
      this.#again(`delivery ${delivery.consumerSequence} came instead of ${this.#expected}`);
      return;
    }
    this.#expected++;
    this.#outstanding--;
    this.counters.messages++;
    for (const frame of this.#framesIn(message, delivery)) this.#mayPull = this.#options.onFrame(frame);
    this.#reached(delivery.streamSequence);
    if (delivery.pending === 0) this.#noteCaughtUp();
    if (this.#outstanding <= 0) this.#finishPull();
  }

  #noteCaughtUp(): void {
    const { time, frames, onCaughtUp } = this.#options;
    this.caughtUpAt = time.elapsed();
    if (frames !== undefined) this.#committedTime.reached(this.caughtUpAt, frames.taken());
    onCaughtUp();
  }

  #reached(sequence: number): void {
    const { frames } = this.#options;
    if (frames !== undefined) this.#committed.reached(sequence, frames.taken());
  }

  /**
   * 100 is a heartbeat; 404 and 408 end a pull that found no more; 409 ends one that was too large, or whose consumer
   * is gone.
   */
  #onStatus(status: number): void {
    if (status === 100) {
      this.#noteCaughtUp();
      return;
    }
    if (status === 404 || status === 408) this.#noteCaughtUp();
    if (status === 404 || status === 408 || status === 409) this.#finishPull();
    else this.#again(`JetStream answered ${status}`);
  }

  #finishPull(): void {
    this.#isPulling = false;
    if (this.#mayPull) this.#pull();
  }

  #lookForSilence(): void {
    const now = this.#options.time.elapsed();
    if (this.#wasHeard) this.#heardAt = now;
    this.#wasHeard = false;
    if (!this.#isPulling || now - this.#heardAt < silenceMs) return;
    this.#again(`JetStream was silent for ${silenceMs} ms`);
  }

  /**
   * Messages that are not our frames, or were damaged in the log, are counted; the journal still has the intact frame.
   */
  #framesIn(message: NatsMessage, delivery: Delivery): LogFrame[] {
    const { bytes } = message;
    const { partition } = this.#options;
    const { streamTime } = delivery;
    const frames: LogFrame[] = [];
    for (let at = 0; at < bytes.length || at === 0; ) {
      const read = readFrame(bytes, at);
      const isSound =
        read.state === 'frame' && read.header.partition === partition && read.header.records <= frameRecordsMax;
      if (!isSound) {
        this.counters.bad_messages++;
        this.#options.log(`a message on ${message.subject} is not an intact frame`);
        return frames;
      }
      frames.push(
        this.#inRightTime({ header: read.header, bytes: bytes.subarray(at, at + read.bytes), streamTime }, message),
      );
      at += read.bytes;
    }
    return frames;
  }

  #inRightTime(frame: LogFrame, message: NatsMessage): LogFrame {
    const { header, streamTime } = frame;
    const { storeTimes = unknownTimes } = this.#options;
    const oldest = storeTimes.oldestOf(header.kind);
    if (isOfNow(header.written_at, streamTime, oldest)) return frame;
    const arrival = { streamTime, sending: decodeSending(message.header(sendingHeader)) };
    const time = rightTime(header.written_at, arrival, oldest, storeTimes.now);
    if (time === header.written_at) return frame;
    this.counters.wrong_clocks++;
    return withTime(frame, time);
  }
}
