/** Sends the queue in batches, and removes what has a final answer. */
import type { Connection, Outcome } from './connection.ts';
import type { EventBatch, EventQueue, StoredEvent } from './event-queue.ts';
import { BATCH_EVENTS_MAX } from './limits.ts';
import type { ServerClock } from './server-clock.ts';

export class EventSending {
  readonly #queue: EventQueue;
  readonly #connection: Connection;
  readonly #clock: ServerClock;
  readonly #onRejected: (count: number) => Promise<void>;
  /** Halved by each 413. */
  #countMax = BATCH_EVENTS_MAX;
  /** Events that were tracked before the server's clock was known. */
  readonly #untimed = new Set<string>();

  constructor(
    queue: EventQueue,
    connection: Connection,
    clock: ServerClock,
    onRejected: (count: number) => Promise<void>,
  ) {
    this.#queue = queue;
    this.#connection = connection;
    this.#clock = clock;
    this.#onRejected = onRejected;
  }

  async add(event: StoredEvent): Promise<void> {
    const isTimed = this.#clock.offsetMs !== undefined;
    if ((await this.#queue.add(event)) && !isTimed) this.#untimed.add(event.event_id);
  }

  /** @returns how long to wait before the next batch; null if there is none. */
  async send(context: object, isCurrent: () => boolean, now: () => number): Promise<number | null> {
    const batch = await this.#queue.next(this.#countMax, now());
    if (!batch) return null;
    const events = batch.flight ? batch.events : await this.#timed(batch);
    await this.#queue.launch(batch, now());
    const outcome = await this.#connection.ask('/sdk/events', { events, context }, 'accepted');
    // The consent was withdrawn meanwhile, and the queue is gone.
    if (!isCurrent()) return null;
    await this.#settle(batch, outcome);
    return this.#connection.waitMs(outcome);
  }

  /** With the server's time, as far as it is known by now. */
  async #timed({ keys, events }: EventBatch): Promise<readonly StoredEvent[]> {
    const timed: StoredEvent[] = [];
    for (const [at, event] of events.entries()) {
      const shift = this.#untimed.has(event.event_id) ? (this.#clock.offsetMs ?? 0) : 0;
      const timestamp = Math.min(event.timestamp + shift, this.#clock.now());
      timed.push({ ...event, timestamp });
      if (timestamp !== event.timestamp) await this.#queue.change(keys[at] ?? '', { ...event, timestamp });
    }
    if (this.#clock.offsetMs !== undefined) for (const { event_id } of events) this.#untimed.delete(event_id);
    return timed;
  }

  async #settle(batch: EventBatch, outcome: Outcome): Promise<void> {
    const { keys, flight } = batch;
    if (outcome.kind === 'in_doubt') return;
    if (outcome.kind === 'declined') return this.#queue.land(flight);
    if (outcome.reply?.status === 413 && keys.length > 1) {
      this.#countMax = Math.ceil(keys.length / 2);
      return this.#queue.land(flight);
    }
    // Refused for its time by a clock that was just corrected: once more.
    const again = outcome.clockChanged ? refusedForTime(outcome) : [];
    const done = keys.filter((_, at) => !again.includes(at));
    await this.#queue.remove(done, flight);
    const rejected = outcome.kind === 'ok' ? Number(outcome.body['rejected']) || 0 : keys.length;
    if (rejected > again.length) await this.#onRejected(rejected - again.length);
  }
}

/** Indexes of the events whose timestamp was refused; in a 400 they are in the names of the fields. */
function refusedForTime({ body }: Outcome): number[] {
  const details = (body['error'] as { details?: object } | undefined)?.details ?? body;
  const errors = 'errors' in details ? (details.errors as object[]) : [details];
  return errors.flatMap((error: { index?: number; field?: string }) => {
    const named = /^(?:events\[(\d+)\]\.)?timestamp$/.exec(error.field ?? '');
    return named ? [Number(error.index ?? named[1])] : [];
  });
}
