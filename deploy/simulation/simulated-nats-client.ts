/**
 * A connection to the simulated NATS: both directions preserve order, everything takes time, and what is in flight when
 * the connection breaks is lost. It reconnects automatically, as the real client does.
 */
import { defaultNames } from '#common/log/log-names.ts';
import type { NatsClient, NatsMessage, PublishOptions } from '#common/stores/nats.ts';
import type { LinkCondition } from './machine.ts';
import type { Program } from './program.ts';
import type { Peer, SimulatedNats, WireMessage } from './simulated-nats.ts';
import { isMatch, messageIdHeader } from './simulated-stream.ts';

type Callback = (message: NatsMessage) => void;

const reconnectMs = 250;
const reconnectJitterMs = 100;
/** Two pings of two seconds without an answer. */
const pingPatienceMs = 4_000;
/** Probability that a message published while disconnected is sent after the reconnect. */
const keptWhileDown = 0.2;
const nothing = Buffer.alloc(0);

export class SimulatedNatsClient implements NatsClient {
  readonly names = defaultNames;
  isConnected = false;
  isClosed = false;
  readonly #program: Program;
  readonly #server: SimulatedNats;
  readonly #link: LinkCondition;
  /** Subscriptions to one subject, by subject. */
  readonly #exact = new Map<string, Set<Callback>>();
  /** Subscriptions with a wildcard. */
  readonly #wild = new Map<Callback, string>();
  readonly #reconnected = new Set<() => void>();
  readonly #atFirst: (() => void)[] = [];
  #outbox: WireMessage[] = [];
  #inboxes = 0;
  /** Number of the current connection: messages of an earlier one are lost. */
  #generation = 0;
  #lastSent = 0;
  #lastReceived = 0;
  #peer: Peer | undefined;
  #wasConnected = false;

  constructor(program: Program, server: SimulatedNats, link: LinkCondition) {
    this.#program = program;
    this.#server = server;
    this.#link = link;
    program.atDeath(() => this.#drop());
    this.#tryToConnect();
  }

  /** Resolves once the server was reached for the first time. */
  connected(): Promise<void> {
    if (this.#wasConnected) return Promise.resolve();
    return new Promise((done) => this.#atFirst.push(done));
  }

  onReconnect(callback: () => void): () => void {
    this.#reconnected.add(callback);
    return () => this.#reconnected.delete(callback);
  }

  publish(subject: string, bytes: Uint8Array, options: PublishOptions = {}): void {
    this.#program.ensureAlive();
    const { reply = '', messageId, header } = options;
    const headers = new Map(messageId === undefined ? [] : [[messageIdHeader, messageId], ...(header ? [header] : [])]);
    const message = { subject, reply, bytes: Buffer.from(bytes), status: 0, headers };
    if (this.isConnected) this.#send(message);
    else if (this.#program.scheduler.random.next() < keptWhileDown) this.#outbox.push(message);
  }

  subscribe(pattern: string, callback: (message: NatsMessage) => void): () => void {
    // The real server receives subscriptions in order with the messages. Here they apply at once, which makes no
    // observable difference.
    const own: Callback = (message) => callback(message);
    if (pattern.endsWith('*') || pattern.endsWith('>')) {
      this.#wild.set(own, pattern);
      return () => void this.#wild.delete(own);
    }
    const all = this.#exact.get(pattern) ?? new Set();
    this.#exact.set(pattern, all.add(own));
    return () => {
      if (all.delete(own) && all.size === 0) this.#exact.delete(pattern);
    };
  }

  inbox(): string {
    return `_INBOX.${this.#program.name.replaceAll(/\W/g, '_')}_${++this.#inboxes}`;
  }

  request(subject: string, bytes: Uint8Array = nothing, timeoutMs = 5_000): Promise<NatsMessage | undefined> {
    return new Promise((done) => {
      const inbox = this.inbox();
      const finish = (message: NatsMessage | undefined) => {
        end();
        this.#program.time.clear(timer);
        done(message);
      };
      const end = this.subscribe(inbox, (message) => finish(message.status === 503 ? undefined : message));
      const timer = this.#program.time.after(timeoutMs, () => finish(undefined));
      this.publish(subject, bytes, { reply: inbox });
    });
  }

  flush(): Promise<void> {
    const { scheduler } = this.#program;
    return new Promise((done) => {
      scheduler.after(scheduler.random.next() * 2 * this.#link.latencyMsMax, () => this.#program.enter(done));
    });
  }

  close(): Promise<void> {
    this.isClosed = true;
    this.#reconnected.clear();
    this.#drop();
    return Promise.resolve();
  }

  /** The connection breaks now. */
  break(): void {
    if (this.#peer === undefined) return;
    this.#drop();
    this.#lost();
  }

  #send(message: WireMessage): void {
    const { scheduler } = this.#program;
    const generation = this.#generation;
    this.#lastSent = Math.max(this.#lastSent, scheduler.now + scheduler.random.next() * this.#link.latencyMsMax);
    scheduler.after(this.#lastSent - scheduler.now, () => {
      if (generation !== this.#generation) return;
      if (this.#link.isCut) this.#notice();
      else this.#server.receive(message);
    });
  }

  #receive(message: WireMessage): void {
    const { scheduler } = this.#program;
    const generation = this.#generation;
    this.#lastReceived = Math.max(
      this.#lastReceived,
      scheduler.now + scheduler.random.next() * this.#link.latencyMsMax,
    );
    scheduler.after(this.#lastReceived - scheduler.now, () => {
      if (generation !== this.#generation) return;
      if (this.#link.isCut) this.#notice();
      else this.#program.enter(() => this.#dispatch(message));
    });
  }

  #dispatch(message: WireMessage): void {
    const given = { ...message, header: (name: string) => message.headers.get(name) ?? '' };
    for (const callback of [...(this.#exact.get(message.subject) ?? [])]) callback(given);
    for (const [callback, pattern] of [...this.#wild]) if (isMatch(pattern, message.subject)) callback(given);
  }

  /** A message did not get through: the pings will notice. */
  #notice(): void {
    const generation = ++this.#generation;
    this.#program.scheduler.after(pingPatienceMs * this.#program.scheduler.random.next(), () => {
      if (generation !== this.#generation || this.#program.isDead) return;
      this.#drop();
      this.#lost();
    });
  }

  /** What the operating system does when the connection ends. */
  #drop(): void {
    this.#generation++;
    if (this.#peer !== undefined) this.#server.disconnect(this.#peer);
    this.#peer = undefined;
  }

  /** What the client does when it notices. */
  #lost(): void {
    this.#program.enter(() => {
      this.isConnected = false;
      this.#outbox = [];
    });
    this.#retry();
  }

  #listensTo(subject: string): boolean {
    if (this.#exact.has(subject)) return true;
    for (const pattern of this.#wild.values()) if (isMatch(pattern, subject)) return true;
    return false;
  }

  #retry(): void {
    const { scheduler } = this.#program;
    scheduler.after(reconnectMs + scheduler.random.next() * reconnectJitterMs, () => this.#tryToConnect());
  }

  #tryToConnect(): void {
    if (this.#program.isDead || this.isClosed || this.#peer !== undefined) return;
    if (!this.#server.isUp || this.#link.isCut) {
      this.#retry();
      return;
    }
    const peer: Peer = {
      name: this.#program.name,
      listensTo: (subject) => this.#listensTo(subject),
      send: (message) => this.#receive(message),
      closed: () => {
        if (this.#peer === peer) this.break();
      },
    };
    this.#peer = peer;
    this.#server.connect(peer);
    this.#lastSent = 0;
    this.#lastReceived = 0;
    const { scheduler } = this.#program;
    scheduler.after(scheduler.random.next() * this.#link.latencyMsMax, () => {
      if (this.#peer === peer) this.#program.enter(() => this.#onConnected());
    });
  }

  #onConnected(): void {
    this.isConnected = true;
    for (const message of this.#outbox.splice(0)) this.#send(message);
    if (!this.#wasConnected) {
      this.#wasConnected = true;
      for (const done of this.#atFirst) done();
      return;
    }
    for (const callback of [...this.#reconnected]) callback();
  }
}
