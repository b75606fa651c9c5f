/**
 * The events on the device, one key each, so that tabs can add without reading what others wrote. Batches that were
 * sent without an answer are in doubt: they are sent again as they were, and dropped before the server forgets their ids.
 */
import { CLOCK_BACK_MAX_MS, IN_DOUBT_MAX_MS, QUEUE_EVENTS_MAX } from './limits.ts';
import type { Store } from './platform.ts';

/** Events that were sent without an answer. */
export interface Flight {
  readonly keys: readonly string[];
  /** When they were first and last sent. */
  readonly since: number;
  readonly last: number;
}

export interface StoredEvent {
  readonly name: string;
  readonly event_id: string;
  /** Text if the caller gave it; it is sent as it is. */
  timestamp: number | string;
  readonly [field: string]: unknown;
}

export interface EventBatch {
  readonly keys: readonly string[];
  readonly events: readonly StoredEvent[];
  readonly flight: Flight | null;
}

export class EventQueue {
  readonly #store: Store;
  readonly #onDrop: (reason: 'full' | 'expired', count: number) => Promise<void>;
  #last: Promise<unknown> = Promise.resolve();

  constructor(store: Store, onDrop: (reason: 'full' | 'expired', count: number) => Promise<void>) {
    this.#store = store;
    this.#onDrop = onDrop;
  }

  /** In order. */
  async keys(): Promise<string[]> {
    return (await this.#store.keys()).filter((key) => key.startsWith('e')).sort();
  }

  /** One at a time, so that the bound is counted once. @returns whether there was room. */
  add(event: StoredEvent): Promise<boolean> {
    const added = this.#last.then(() => this.#add(event));
    this.#last = added.catch(() => undefined);
    return added;
  }

  async #add(event: StoredEvent): Promise<boolean> {
    const keys = await this.keys();
    const number = Number(keys.at(-1)?.slice(1, 13) ?? 0) + 1;
    const key = `e${String(number).padStart(12, '0')}-${event.event_id}`;
    const flight = await this.flight();
    const free = keys.filter((one) => !flight?.keys.includes(one));
    for (let excess = keys.length + 1 - QUEUE_EVENTS_MAX; ; excess = 1) {
      const oldest = free.splice(0, excess);
      if (oldest.length > 0) {
        await this.#onDrop('full', oldest.length);
        await this.#store.remove(oldest);
      }
      try {
        await this.#store.set(key, JSON.stringify(event));
        return true;
      } catch {
        // The device's storage is full.
        if (free.length > 0) continue;
        await this.#onDrop('full', 1);
        return false;
      }
    }
  }

  async flight(): Promise<Flight | null> {
    return JSON.parse((await this.#store.get('flight')) ?? 'null');
  }

  /** What to send next: what is in doubt, else the oldest events. Null if there is nothing. */
  async next(countMax: number, bytesMax: number, nowMs: number): Promise<EventBatch | null> {
    const flight = await this.flight();
    const open = (await this.keys()).filter((key) => !flight || flight.keys.includes(key));
    // A clock that went back hides how long ago they were sent.
    const isOld = flight && (nowMs - flight.since >= IN_DOUBT_MAX_MS || nowMs < flight.last - CLOCK_BACK_MAX_MS);
    if (isOld && open.length > 0) await this.#onDrop('expired', open.length);
    if (isOld || (flight && open.length === 0)) {
      await this.remove(open, null);
      return this.next(countMax, bytesMax, nowMs);
    }
    const keys: string[] = [];
    const events: StoredEvent[] = [];
    // Room for the context.
    let bytes = 2_000;
    for (const key of open) {
      if (keys.length >= countMax) break;
      const text = (await this.#store.get(key)) ?? '';
      bytes += bytesOf(text) + 1;
      if (bytes > bytesMax && keys.length > 0) break;
      try {
        events.push(JSON.parse(text));
        keys.push(key);
      } catch {
        await this.#store.remove([key]);
      }
    }
    return keys.length === 0 ? null : { keys, events, flight };
  }

  /** Erases everything that is kept, not only events. @returns the number of events. */
  clear(): Promise<number> {
    const cleared = this.#last.then(async () => {
      const { length } = await this.keys();
      await this.#store.remove(await this.#store.keys());
      return length;
    });
    this.#last = cleared.catch(() => undefined);
    return cleared;
  }

  /** Stores an event as it is sent: a retry has to say the same. */
  async change(key: string, event: StoredEvent): Promise<void> {
    await this.#store.set(key, JSON.stringify(event));
  }

  /** Notes that events are in doubt, or that none are. */
  async doubt(flight: Flight | null): Promise<void> {
    if (!flight) return this.#store.remove(['flight']);
    try {
      await this.#store.set('flight', JSON.stringify(flight));
    } catch {
      // The device's storage is full. Sending makes room.
    }
  }

  /** Removes events that have a final answer. */
  async remove(keys: readonly string[], flight: Flight | null): Promise<void> {
    const rest = flight?.keys.filter((key) => !keys.includes(key));
    await this.#store.remove(keys);
    await this.doubt(flight && rest?.length ? { ...flight, keys: rest } : null);
  }
}

/** Of the text in UTF-8. JSON has no unpaired surrogates. */
export function bytesOf(text: string): number {
  return encodeURIComponent(text).replace(/%../g, 'x').length;
}
