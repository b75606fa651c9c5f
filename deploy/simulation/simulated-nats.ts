/**
 * The simulated NATS server: subjects, and JetStream by its JSON API (docs.nats.io, "JetStream wire API") as far as
 * this project uses it. It can die with or without losing the end of its log, be wiped, refuse requests, be slow, and
 * have a wrong clock.
 */
import type { Scheduler } from './scheduler.ts';
import { type ConsumerConfig, SimulatedConsumer, statuses } from './simulated-consumer.ts';
import { type Headers, noHeaders, SimulatedStream, type StreamConfig } from './simulated-stream.ts';

/** A message in flight. */
export interface WireMessage {
  readonly subject: string;
  readonly reply: string;
  readonly bytes: Buffer;
  readonly status: number;
  readonly headers: Headers;
}

/** The server's end of a connection. */
export interface Peer {
  readonly name: string;
  listensTo(subject: string): boolean;
  send(message: WireMessage): void;
  /** The server has closed the connection, or died. */
  closed(): void;
}

const expireIntervalMs = 1_000;
const nothing = Buffer.alloc(0);
const apiPrefix = '$JS.API.';

const errors = {
  streamNotFound: { code: 404, err_code: 10_059, description: 'stream not found' },
  consumerNotFound: { code: 404, err_code: 10_014, description: 'consumer not found' },
  bytesExceeded: { code: 503, err_code: 10_077, description: 'maximum bytes exceeded' },
  unavailable: { code: 503, err_code: 10_008, description: 'JetStream system temporarily unavailable' },
} as const;

export class SimulatedNats {
  isUp = true;
  /** JetStream answers every publish and request with an error. */
  isRefusing = false;
  /** The share of deliveries to consumers that never arrive, although the connection stays. */
  lostDeliveries = 0;
  /** The error of its clock in milliseconds. */
  clockOffsetMs = 0;
  readonly hits = {
    deliveries_lost: 0,
    crashed: 0,
    tail_lost: 0,
    wiped: 0,
    log_full: 0,
    duplicates: 0,
    purged: 0,
    expired: 0,
  };
  readonly #scheduler: Scheduler;
  readonly #epoch: number;
  readonly #peers = new Set<Peer>();
  readonly #streams = new Map<string, SimulatedStream>();
  #consumers = new Map<string, SimulatedConsumer>();
  #syncedSeq = new Map<string, number>();

  constructor(scheduler: Scheduler, epochMs: number) {
    this.#scheduler = scheduler;
    this.#epoch = epochMs;
    this.#tick();
  }

  get now(): number {
    return Math.floor(this.#epoch + this.#scheduler.now + this.clockOffsetMs);
  }

  stream(name: string): SimulatedStream | undefined {
    return this.#streams.get(name);
  }

  get streams(): readonly SimulatedStream[] {
    return [...this.#streams.values()];
  }

  connect(peer: Peer): void {
    this.#peers.add(peer);
  }

  disconnect(peer: Peer): void {
    this.#peers.delete(peer);
  }

  /** Dies. @param lostMessages how many messages at the end of each log were not on its disk. */
  crash(lostMessages: number): void {
    if (!this.isUp) return;
    this.isUp = false;
    this.hits.crashed++;
    for (const stream of this.#streams.values()) {
      if (lostMessages === 0 || stream.messages.length === 0) continue;
      this.hits.tail_lost++;
      stream.loseTail(lostMessages);
    }
    for (const consumer of this.#consumers.values()) consumer.close(false);
    this.#consumers = new Map();
    for (const peer of [...this.#peers]) peer.closed();
    this.#peers.clear();
  }

  /** Loses all data. */
  wipe(): void {
    this.crash(0);
    this.hits.wiped++;
    this.#streams.clear();
  }

  /** Messages that a power loss would destroy: those since its last sync. */
  unsynced(name: string): number {
    const stream = this.#streams.get(name);
    const synced = this.#syncedSeq.get(name) ?? 0;
    return stream?.messages.filter((message) => message.seq > synced).length ?? 0;
  }

  start(): void {
    this.isUp = true;
  }

  /** A message has arrived from a client. */
  receive(message: WireMessage): void {
    if (!this.isUp) return;
    if (message.subject.startsWith(apiPrefix)) {
      this.#api(message);
      return;
    }
    const stream = this.#streamOf(message.subject);
    if (stream !== undefined && !this.isRefusing) this.#store(stream, message);
    else if (stream !== undefined) this.#answer(message.reply, { error: errors.unavailable, stream: 'log', seq: 0 });
    const isTaken = this.#route(message);
    if (stream === undefined && !isTaken && message.reply !== '')
      this.#send(message.reply, '', nothing, statuses.noResponders);
  }

  #streamOf(subject: string): SimulatedStream | undefined {
    for (const stream of this.#streams.values()) if (stream.takes(subject)) return stream;
    return undefined;
  }

  #store(stream: SimulatedStream, { subject, bytes, headers, reply }: WireMessage): void {
    const outcome = stream.publish(subject, bytes, headers, this.now);
    const { name } = stream.config;
    if (outcome.kind === 'full') {
      this.hits.log_full++;
      this.#answer(reply, { error: errors.bytesExceeded, stream: name, seq: 0 });
      return;
    }
    if (outcome.kind === 'duplicate') this.hits.duplicates++;
    const { seq } = outcome;
    this.#answer(reply, outcome.kind === 'duplicate' ? { stream: name, seq, duplicate: true } : { stream: name, seq });
    if (outcome.kind === 'stored') for (const consumer of this.#consumers.values()) consumer.wake();
  }

  /** @returns whether there is a subscriber. */
  #route(message: WireMessage): boolean {
    let isTaken = false;
    for (const peer of this.#peers) {
      if (!peer.listensTo(message.subject)) continue;
      isTaken = true;
      peer.send(message);
    }
    return isTaken;
  }

  #send(subject: string, reply: string, bytes: Buffer, status: number, headers = noHeaders): boolean {
    if (subject === '') return false;
    return this.#route({ subject, reply, bytes, status, headers });
  }

  #answer(to: string, body: object): void {
    this.#send(to, '', Buffer.from(JSON.stringify(body)), 0);
  }

  #api({ subject, reply, bytes }: WireMessage): void {
    const [area, verb, ...names] = subject.slice(apiPrefix.length).split('.');
    if (this.isRefusing) {
      this.#answer(reply, { error: errors.unavailable });
      return;
    }
    const request = bytes.length === 0 ? {} : (JSON.parse(bytes.toString()) as Record<string, unknown>);
    if (area === 'STREAM') this.#answer(reply, this.#streamApi(verb ?? '', names[0] ?? '', request));
    else if (verb === 'MSG') this.#pull(names, reply, request as Record<string, number>);
    else this.#answer(reply, this.#consumerApi(verb ?? '', names, request));
  }

  #streamApi(verb: string, name: string, request: Record<string, unknown>): object {
    const known = this.#streams.get(name);
    if (verb === 'CREATE') {
      if (known === undefined)
        this.#streams.set(name, new SimulatedStream(request as unknown as StreamConfig, String(this.#scheduler.now)));
      return this.#infoOf(name);
    }
    if (known === undefined) return { error: errors.streamNotFound };
    if (verb === 'UPDATE') known.config = { ...known.config, ...request };
    if (verb === 'PURGE') {
      const { filter = '>', seq = 0 } = request as { filter?: string; seq?: number };
      const purged = known.purge(filter, seq);
      this.hits.purged += purged;
      return { success: true, purged };
    }
    return this.#infoOf(name);
  }

  #infoOf(name: string): object {
    const stream = this.#streams.get(name);
    if (stream === undefined) return { error: errors.streamNotFound };
    const { config, created, messages, bytes, firstSeq, lastSeq } = stream;
    const subjects: Record<string, number> = {};
    for (const { subject } of messages) subjects[subject] = (subjects[subject] ?? 0) + 1;
    const state = { messages: messages.length, bytes, first_seq: firstSeq, last_seq: lastSeq, subjects };
    return { config, created, state };
  }

  #consumerApi(verb: string, [streamName = '', name = '']: string[], request: Record<string, unknown>): object {
    const stream = this.#streams.get(streamName);
    if (stream === undefined) return { error: errors.streamNotFound };
    const known = this.#consumers.get(name);
    if (verb === 'DELETE') {
      if (known === undefined) return { error: errors.consumerNotFound };
      this.#dropConsumer(name, true);
      return { success: true };
    }
    if (verb !== 'CREATE') return { error: errors.consumerNotFound };
    const consumer = new SimulatedConsumer(
      request.config as ConsumerConfig,
      stream,
      this.#scheduler,
      (inbox, reply, bytes, status, headers) =>
        this.#isLost(status) || this.#send(inbox, reply, bytes, status, headers),
      () => this.#dropConsumer(name, false),
    );
    this.#consumers.set(name, consumer);
    const delivered = { consumer_seq: 0, stream_seq: consumer.nextSequence - 1 };
    return { name, config: request.config, delivered, num_pending: consumer.pending };
  }

  #isLost(status: number): boolean {
    if (status !== 0 || this.lostDeliveries === 0 || this.#scheduler.random.next() >= this.lostDeliveries) return false;
    this.hits.deliveries_lost++;
    return true;
  }

  #dropConsumer(name: string, sendsStatus: boolean): void {
    this.#consumers.get(name)?.close(sendsStatus);
    this.#consumers.delete(name);
  }

  #pull([, , name = '']: string[], inbox: string, request: Record<string, number>): void {
    const consumer = this.#consumers.get(name);
    if (consumer === undefined) this.#send(inbox, '', nothing, statuses.noResponders);
    else consumer.pull(inbox, request);
  }

  /** Syncs the log and removes expired messages once a second. */
  #tick(): void {
    this.#scheduler.after(expireIntervalMs, () => {
      if (this.isUp) {
        for (const [name, stream] of this.#streams) {
          const before = stream.expired;
          stream.expire(this.now);
          this.hits.expired += stream.expired - before;
          this.#syncedSeq.set(name, stream.lastSeq);
        }
      }
      this.#tick();
    });
  }
}
