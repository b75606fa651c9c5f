/**
 * One client of the live feed: its filter, its send queue, and how much was left out.
 *
 *   replaying ──reached the log's end──▶ live ──its time is up, the process stops, the client left──▶ over
 *        └───────────────── too much waits, or it may not watch any more ───────────────────────────────▲
 */
import type { LiveRecord } from './live-record.ts';
import type { LogPosition } from './log-tail.ts';
import { type SampledSecond, Sampler } from './sampler.ts';

/** Maximum records per second for one client. */
export const recordsPerSecondMax = 100;
/** Maximum queue of a client; slower clients are disconnected. */
const queuedBytesMax = 1_048_576;

/** Matches any of several values; null: all. */
export interface LiveFilter {
  readonly organizationIds: readonly string[];
  readonly appIds: readonly string[] | null;
  readonly linkIds: readonly string[] | null;
  readonly deviceIds: readonly string[] | null;
}

/** A place between two records. */
export interface RecordPosition extends LogPosition {
  /** The number of the record in its message. */
  readonly record: number;
}

/** Text without characters that JSON escapes, so that it appears in a line unchanged. */
const plain = /^[\x20-\x21\x23-\x5b\x5d-\x7e]*$/;

export class LiveStream implements AsyncIterableIterator<Uint8Array> {
  readonly filter: LiveFilter;
  isReplaying: boolean;
  /** Everything up to here was considered for this client. */
  reached: RecordPosition;
  readonly #marks: readonly (readonly string[])[];
  readonly #sampler = new Sampler(recordsPerSecondMax);
  readonly #ending = new AbortController();
  #queued: string[] = [];
  #queuedBytes = 0;
  #wakeReader: () => void = () => undefined;
  #wakeWriter: () => void = () => undefined;

  constructor(filter: LiveFilter, after: RecordPosition | null) {
    this.filter = filter;
    this.isReplaying = after !== null;
    this.reached = after ?? { timeMs: 0, sequence: 0, record: 0 };
    const { organizationIds, appIds, linkIds, deviceIds } = filter;
    this.#marks = [organizationIds, appIds, linkIds, deviceIds].filter(
      (one): one is readonly string[] => one?.every((text) => plain.test(text)) === true,
    );
  }

  /** Aborted when the stream is over. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  get isOver(): boolean {
    return this.#ending.signal.aborted;
  }

  /** Whether a line may match the client's filter: cheaper than parsing it. */
  mayWant(line: string): boolean {
    return this.#marks.every((texts) => texts.some((text) => line.includes(text)));
  }

  wants({ organization_id, app_id, link_id, device_id }: LiveRecord): boolean {
    const { organizationIds, appIds, linkIds, deviceIds } = this.filter;
    return (
      organizationIds.includes(organization_id) &&
      (appIds?.includes(app_id) ?? true) &&
      (linkIds?.includes(link_id) ?? true) &&
      (deviceIds?.includes(device_id) ?? true)
    );
  }

  /** Whether the next record of this time is in the sample; finishes the previous second. */
  samples(timeMs: number): boolean {
    this.endSecond(timeMs);
    return this.#sampler.takes();
  }

  /** Reports what was left out of the current second, if it is over. */
  endSecond(nowMs: number): void {
    const left = this.#sampler.endSecond(nowMs);
    if (left !== null) this.send(sampledText(left));
  }

  send(text: string): void {
    if (this.isOver) return;
    if (this.#queuedBytes + text.length > queuedBytesMax) {
      this.#queued = [];
      this.end();
      return;
    }
    this.#queued.push(text);
    this.#queuedBytes += text.length;
    this.#wakeReader();
  }

  /** Resolves when the client has read most of its queue, or the stream is over. */
  async room(): Promise<void> {
    while (this.#queuedBytes > queuedBytesMax / 4 && !this.isOver) {
      await new Promise<void>((resolve) => {
        this.#wakeWriter = resolve;
      });
    }
  }

  endAfter(ms: number): void {
    const timer = setTimeout(() => this.end(), ms);
    this.signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
  }

  /** Queued records are still sent, but no new ones. */
  end(): void {
    this.#ending.abort();
    this.#wakeReader();
    this.#wakeWriter();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    while (this.#queued.length === 0 && !this.isOver) {
      await new Promise<void>((resolve) => {
        this.#wakeReader = resolve;
      });
    }
    if (this.#queued.length === 0) return { done: true, value: undefined };
    const value = Buffer.from(this.#queued.join(''));
    this.#queued = [];
    this.#queuedBytes = 0;
    this.#wakeWriter();
    return { done: false, value };
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.end();
    return { done: true, value: undefined };
  }
}

function sampledText({ seen, sent }: SampledSecond): string {
  const rate = Math.round((sent / seen) * 10_000) / 10_000;
  return `event: sampled\ndata: ${JSON.stringify({ seen, sent, rate })}\n\n`;
}

const positionShape = /^(\d{1,15})-(\d{1,16})-(\d{1,9})$/;

export function positionText({ timeMs, sequence, record }: RecordPosition): string {
  return `${timeMs}-${sequence}-${record}`;
}

/** Null for text that is not a position. */
export function readPosition(text: string): RecordPosition | null {
  const [, timeMs, sequence, record] = positionShape.exec(text) ?? [];
  if (timeMs === undefined) return null;
  return { timeMs: Number(timeMs), sequence: Number(sequence), record: Number(record) };
}
