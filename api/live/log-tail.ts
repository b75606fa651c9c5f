/**
 * Reads the log from its end, or from a point in time, for as long as it is iterated. Only for watching: stream
 * positions can go back when a server loses its tail, so nothing durable may depend on what it reads.
 */
import { randomUUID } from 'node:crypto';
import type { NatsClient, NatsMessage } from '#common/stores/nats.ts';

/** A message's position in the log: time first, because sequences restart when the stream is recreated. */
export interface LogPosition {
  /** When the server stored it. */
  readonly timeMs: number;
  readonly sequence: number;
}

export type TailItem =
  /** Everything stored from now on will be read. */
  | { readonly state: 'opened' }
  /** Everything that the log holds was read. */
  | { readonly state: 'idle' }
  | {
      readonly state: 'message';
      readonly position: LogPosition;
      readonly bytes: Buffer;
      /** The log held nothing after it when it was sent. */
      readonly isLast: boolean;
    };

/** Reading was interrupted: it has to start again. */
export class TailLost extends Error {}

const pullMessages = 128;
const pullBytes = 4_194_304;
const pullExpiresMs = 2_000;
const heartbeatMs = 500;
const silenceMs = 4_000;
const inactiveThresholdMs = 10_000;
const nanosPerMs = 1_000_000;

export function isAfter(one: LogPosition, other: LogPosition): boolean {
  return one.timeMs > other.timeMs || (one.timeMs === other.timeMs && one.sequence > other.sequence);
}

/** @param fromMs null: only messages stored from now on. @throws TailLost */
export async function* readTail(
  nats: NatsClient,
  fromMs: number | null,
  signal: AbortSignal,
): AsyncGenerator<TailItem, void> {
  const inbox = new Inbox(nats, signal);
  try {
    const consumer = await createConsumer(nats, fromMs);
    yield { state: 'opened' };
    let expected = 1;
    while (!signal.aborted) {
      pull(nats, consumer, inbox.subject);
      for (let left = pullMessages; left > 0; ) {
        const message = await inbox.next(silenceMs);
        if (signal.aborted) return;
        if (message === undefined) throw new TailLost(`JetStream was silent for ${silenceMs} ms`);
        const delivery = deliveryOf(message);
        if (delivery === null) {
          const isPullOver = endOfPull(message.status);
          yield { state: 'idle' };
          if (isPullOver) break;
          continue;
        }
        if (delivery.consumerSequence !== expected) throw new TailLost('a delivery is missing');
        expected++;
        left--;
        const { position, isLast } = delivery;
        yield { state: 'message', position, isLast, bytes: message.bytes };
      }
    }
  } finally {
    inbox.close();
  }
}

/** Status 100 is a heartbeat; 404, 408 and 409 end a pull. @throws TailLost */
function endOfPull(status: number): boolean {
  if (status === 100) return false;
  if (status === 404 || status === 408 || status === 409) return true;
  throw new TailLost(`JetStream answered ${status}`);
}

/** The consumer expires by itself, because the API may not delete consumers. @throws TailLost */
async function createConsumer(nats: NatsClient, fromMs: number | null): Promise<string> {
  const name = `live-${randomUUID()}`;
  const config = {
    name,
    ack_policy: 'none',
    replay_policy: 'instant',
    inactive_threshold: inactiveThresholdMs * nanosPerMs,
    mem_storage: true,
    num_replicas: 1,
    max_waiting: 2,
    ...(fromMs === null
      ? { deliver_policy: 'new' }
      : { deliver_policy: 'by_start_time', opt_start_time: new Date(fromMs).toISOString() }),
  };
  const request = { stream_name: nats.names.stream, config, action: 'create' };
  const answer = await nats.request(
    nats.names.api('CONSUMER.CREATE', name),
    Buffer.from(JSON.stringify(request)),
    2_000,
  );
  const text = answer?.status === 0 ? answer.bytes.toString() : '';
  if (text === '') throw new TailLost('JetStream does not answer');
  if (text.includes('"error"')) throw new TailLost(text.slice(0, 200));
  return name;
}

function pull(nats: NatsClient, consumer: string, reply: string): void {
  const request = {
    batch: pullMessages,
    max_bytes: pullBytes,
    expires: pullExpiresMs * nanosPerMs,
    idle_heartbeat: heartbeatMs * nanosPerMs,
  };
  nats.publish(nats.names.api('CONSUMER.MSG.NEXT', consumer), Buffer.from(JSON.stringify(request)), { reply });
}

interface Delivery {
  readonly position: LogPosition;
  readonly consumerSequence: number;
  readonly isLast: boolean;
}

/** From a delivery's reply subject, with and without a domain: docs.nats.io, "JetStream wire API". */
function deliveryOf({ reply }: NatsMessage): Delivery | null {
  const tokens = reply.split('.');
  if (tokens.length < 9 || tokens[0] !== '$JS') return null;
  const [sequence, consumerSequence, nanos, pending] = tokens.slice(tokens.length === 9 ? 5 : 7).map(Number);
  return {
    position: { timeMs: Math.floor((nanos ?? 0) / nanosPerMs), sequence: sequence ?? 0 },
    consumerSequence: consumerSequence ?? 0,
    isLast: pending === 0,
  };
}

/** Maximum messages of one pull, which wait until they are processed. */
class Inbox {
  readonly subject: string;
  readonly #messages: NatsMessage[] = [];
  readonly #unsubscribe: () => void;
  #wake: () => void = () => undefined;

  constructor(nats: NatsClient, signal: AbortSignal) {
    this.subject = nats.inbox();
    this.#unsubscribe = nats.subscribe(this.subject, (message) => {
      this.#messages.push(message);
      this.#wake();
    });
    signal.addEventListener('abort', () => this.#wake(), { once: true });
  }

  /** The next message; undefined if none arrives in this time, or when the reader is stopping. */
  async next(timeoutMs: number): Promise<NatsMessage | undefined> {
    if (this.#messages.length === 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeoutMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return this.#messages.shift();
  }

  close(): void {
    this.#unsubscribe();
  }
}
