/** Sends the queue in batches, and removes what has a final answer. */
import type { Connection } from './connection.ts';
import type { EventBatch, EventQueue, StoredEvent } from './event-queue.ts';
import { BATCH_BYTES_MAX, BATCH_BYTES_MIN, BATCH_BYTES_STEP, BATCH_EVENTS_MAX } from './limits.ts';
import type { Outcome } from './platform.ts';
import type { ServerClock } from './server-clock.ts';

export class EventSending {
  readonly #queue: EventQueue;
  readonly #connection: Connection;
  readonly #clock: ServerClock;
  readonly #onDrop: (reason: 'rejected', count: number) => Promise<void>;
  /** Halved by each 413. */
  #countMax = BATCH_EVENTS_MAX;
  /** Halved by each request that was too slow, and larger again after answers. */
  #bytesMax = BATCH_BYTES_MAX;
  /** Events that were tracked before the server's clock was known. */
  readonly #untimed = new Set<string>();

  constructor(
    queue: EventQueue,
    connection: Connection,
    clock: ServerClock,
    onDrop: (reason: 'rejected', count: number) => Promise<void>,
  ) {
    this.#queue = queue;
    this.#connection = connection;
    this.#clock = clock;
    this.#onDrop = onDrop;
  }

  async add(event: StoredEvent): Promise<void> {
    const { offsetMs } = this.#clock;
    if ((await this.#queue.add(event)) && offsetMs === undefined) this.#untimed.add(event.event_id);
  }

  /** @returns the outcome of one batch; null if there is none, or the consent was withdrawn meanwhile. */
  async send(context: object, isCurrent: () => boolean, now: () => number): Promise<Outcome | null> {
    const batch = await this.#queue.next(this.#countMax, this.#bytesMax, now());
    if (!batch) return null;
    const { keys, flight, events } = batch;
    if (!flight) await this.#time(batch);
    await this.#queue.doubt({ keys, since: now(), ...flight, last: now() });
    const outcome = await this.#connection.ask('/sdk/events', { events, context }, 'accepted');
    if (!isCurrent()) return null;
    await this.#settle(batch, outcome);
    return outcome;
  }

  /** Gives the events the server's time, as far as it is known by now. A retry has to say the same, so it is stored. */
  async #time({ keys, events }: EventBatch): Promise<void> {
    const { offsetMs } = this.#clock;
    for (const [at, event] of events.entries()) {
      const shift = (this.#untimed.has(event.event_id) && offsetMs) || 0;
      const tracked = event.timestamp as number;
      const timestamp = Math.min(tracked + shift, this.#clock.now());
      // NaN, which is no change, if it is text.
      if (timestamp - tracked) {
        event.timestamp = timestamp;
        await this.#queue.change(keys[at] as string, event);
      }
      if (offsetMs !== undefined) this.#untimed.delete(event.event_id);
    }
  }

  async #settle(batch: EventBatch, outcome: Outcome): Promise<void> {
    const { keys, flight } = batch;
    const { kind, reply, body } = outcome;
    // None, as after a time-out, is like too slow for the server.
    const { status } = reply ?? { status: 408 };
    const isOk = kind === 'ok';
    if (isOk) this.#bytesMax = Math.min(BATCH_BYTES_MAX, this.#bytesMax + BATCH_BYTES_STEP);
    if (kind === 'in_doubt') {
      if (status === 408) this.#bytesMax = Math.max(BATCH_BYTES_MIN, this.#bytesMax >> 1);
      return;
    }
    const isTooLarge = status === 413 && keys.length > 1;
    if (isTooLarge) this.#countMax = (keys.length + 1) >> 1;
    if (isTooLarge || kind === 'declined' || kind === 'hopeless') return this.#queue.doubt(flight);
    // Refused for its time by a clock that was just corrected: once more.
    const again = outcome.clockChanged ? refusedForTime(outcome) : [];
    const done = keys.filter((_, at) => !again.includes(at));
    const rejected = isOk ? Number(body['rejected']) || 0 : keys.length;
    // Counted first: a crash in between counts them twice rather than not at all.
    if (rejected > again.length) await this.#onDrop('rejected', rejected - again.length);
    await this.#queue.remove(done, flight);
  }
}

/** Indexes of the events whose timestamp was refused; in a 400 they are in the names of the fields. */
function refusedForTime({ body }: Outcome): number[] {
  const details: { errors?: object[] } = (body['error'] as { details?: object } | undefined)?.details ?? body;
  return (details.errors ?? [details]).flatMap((error: { index?: number; field?: string }) => {
    const named = /^(?:events\[(\d+)\]\.)?timestamp$/.exec(error.field as string);
    return named ? [Number(error.index ?? named[1])] : [];
  });
}
