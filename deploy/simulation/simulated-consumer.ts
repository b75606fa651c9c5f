/**
 * A pull consumer of the simulated JetStream, without acknowledgements: its position in the stream and its pending
 * pulls.
 */
import type { Scheduler, Step } from './scheduler.ts';
import { type Headers, isMatch, type SimulatedStream, type StoredMessage } from './simulated-stream.ts';

/** Sends a delivery or a status. `false` if the inbox no longer has a subscriber. */
export type Deliver = (inbox: string, reply: string, bytes: Buffer, status: number, headers?: Headers) => boolean;

interface Pull {
  readonly inbox: string;
  readonly expiry: Step | undefined;
  readonly heartbeatMs: number;
  heartbeat: Step | undefined;
  beatAt: number;
  left: number;
  bytesLeft: number;
}

export interface ConsumerConfig {
  readonly name: string;
  readonly filter_subject?: string;
  readonly deliver_policy: string;
  readonly opt_start_time?: string;
  readonly inactive_threshold?: number;
  readonly max_waiting?: number;
}

const nanosPerMs = 1_000_000;
const nothing = Buffer.alloc(0);
const defaultWaiting = 512;
const inactiveMs = 5_000;
export const statuses = { heartbeat: 100, noMessages: 404, timeout: 408, conflict: 409, noResponders: 503 } as const;

export class SimulatedConsumer {
  readonly name: string;
  readonly #config: ConsumerConfig;
  readonly #stream: SimulatedStream;
  readonly #scheduler: Scheduler;
  readonly #deliver: Deliver;
  readonly #onInactive: () => void;
  readonly #pulls: Pull[] = [];
  /** Whether a subject matches the filter; a stream has few subjects. */
  readonly #wanted = new Map<string, boolean>();
  #nextSeq: number;
  #delivered = 0;
  #touchedAt = 0;
  #inactivity: Step;

  constructor(
    config: ConsumerConfig,
    stream: SimulatedStream,
    scheduler: Scheduler,
    deliver: Deliver,
    onInactive: () => void,
  ) {
    this.name = config.name;
    this.#config = config;
    this.#stream = stream;
    this.#scheduler = scheduler;
    this.#deliver = deliver;
    this.#onInactive = onInactive;
    const from = config.opt_start_time === undefined ? 0 : Date.parse(config.opt_start_time);
    this.#nextSeq = stream.messages.find((message) => message.storedAt >= from)?.seq ?? stream.lastSeq + 1;
    this.#inactivity = this.#watch();
  }

  /** The stream sequence that it delivers next; it does not deliver earlier messages. */
  get nextSequence(): number {
    return this.#nextSeq;
  }

  /** Messages that it has not delivered yet. */
  get pending(): number {
    const { messages } = this.#stream;
    let count = 0;
    for (let at = this.#stream.indexOf(this.#nextSeq); at < messages.length; at++) {
      const message = messages[at];
      if (message !== undefined && this.#wants(message)) count++;
    }
    return count;
  }

  pull(inbox: string, request: Record<string, number>): void {
    this.#touch();
    if (this.#pulls.length >= (this.#config.max_waiting ?? defaultWaiting)) {
      this.#deliver(inbox, '', nothing, statuses.conflict);
      return;
    }
    const { batch = 1, max_bytes = 0, expires = 0, idle_heartbeat = 0, no_wait = 0 } = request;
    const pull: Pull = {
      inbox,
      left: batch,
      bytesLeft: max_bytes === 0 ? Number.POSITIVE_INFINITY : max_bytes,
      heartbeatMs: idle_heartbeat / nanosPerMs,
      heartbeat: undefined,
      beatAt: 0,
      expiry:
        expires === 0
          ? undefined
          : this.#scheduler.after(expires / nanosPerMs, () => this.#end(pull, statuses.timeout)),
    };
    this.#pulls.push(pull);
    this.#beat(pull);
    this.wake();
    if (no_wait && this.#pulls.includes(pull)) this.#end(pull, statuses.noMessages);
  }

  /** Delivers available messages to pending pulls. */
  wake(): void {
    for (let pull = this.#pulls[0]; pull !== undefined; pull = this.#pulls[0]) {
      const message = this.#next();
      if (message === undefined) return;
      if (message.size > pull.bytesLeft) {
        this.#end(pull, statuses.conflict);
        continue;
      }
      this.#nextSeq = message.seq + 1;
      const reply = `$JS.ACK.${this.#stream.config.name}.${this.name}.1.${message.seq}.${this.#delivered + 1}.${message.storedAt * nanosPerMs}.${this.pending}`;
      if (!this.#deliver(pull.inbox, reply, message.bytes, 0, message.headers)) {
        // The inbox has no subscriber: drop the pull and offer the message to another.
        this.#nextSeq = message.seq;
        this.#remove(pull);
        continue;
      }
      this.#touch();
      this.#delivered++;
      pull.left--;
      pull.bytesLeft -= message.size;
      this.#beat(pull);
      if (pull.left === 0) this.#remove(pull);
    }
  }

  /** Deletes the consumer. @param sendsStatus whether pending pulls get a status. */
  close(sendsStatus: boolean): void {
    this.#scheduler.cancel(this.#inactivity);
    for (const pull of [...this.#pulls]) {
      if (sendsStatus) this.#end(pull, statuses.conflict);
      else this.#remove(pull);
    }
  }

  #next(): StoredMessage | undefined {
    const { messages } = this.#stream;
    for (let at = this.#stream.indexOf(this.#nextSeq); at < messages.length; at++) {
      const message = messages[at];
      if (message !== undefined && this.#wants(message)) return message;
    }
    return undefined;
  }

  #wants({ subject }: StoredMessage): boolean {
    let isWanted = this.#wanted.get(subject);
    if (isWanted === undefined) {
      isWanted = isMatch(this.#config.filter_subject ?? '>', subject);
      this.#wanted.set(subject, isWanted);
    }
    return isWanted;
  }

  #end(pull: Pull, status: number): void {
    this.#remove(pull);
    this.#deliver(pull.inbox, '', nothing, status);
  }

  #remove(pull: Pull): void {
    const at = this.#pulls.indexOf(pull);
    if (at !== -1) this.#pulls.splice(at, 1);
    if (pull.expiry !== undefined) this.#scheduler.cancel(pull.expiry);
    if (pull.heartbeat !== undefined) this.#scheduler.cancel(pull.heartbeat);
  }

  #beat(pull: Pull): void {
    if (pull.heartbeatMs === 0) return;
    pull.beatAt = this.#scheduler.now + pull.heartbeatMs;
    // One timer per pull, extended if something was delivered in the meantime.
    if (pull.heartbeat?.callback === undefined) this.#beatLater(pull);
  }

  #beatLater(pull: Pull): void {
    pull.heartbeat = this.#scheduler.after(pull.beatAt - this.#scheduler.now, () => {
      if (pull.beatAt > this.#scheduler.now) this.#beatLater(pull);
      else if (this.#deliver(pull.inbox, '', nothing, statuses.heartbeat)) this.#beat(pull);
      else this.#remove(pull);
    });
  }

  #touch(): void {
    this.#touchedAt = this.#scheduler.now;
  }

  /** One timer, however often activity resets it: the deadline is checked when it fires. */
  #watch(leftMs?: number): Step {
    const { inactive_threshold = inactiveMs * nanosPerMs } = this.#config;
    const thresholdMs = inactive_threshold / nanosPerMs;
    return this.#scheduler.after(leftMs ?? thresholdMs, () => {
      const left = this.#touchedAt + thresholdMs - this.#scheduler.now;
      if (this.#pulls.length > 0) this.#inactivity = this.#watch();
      else if (left > 0) this.#inactivity = this.#watch(left);
      else this.#onInactive();
    });
  }
}
