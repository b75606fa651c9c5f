/**
 * One partition of the log: waits for its lease, settles what the last owner left behind, then carries frames to the sink.
 *
 *   waiting ──lease──▶ recovering ──every BEFORE settled──▶ running ──┐
 *      ▲                                                              │
 *      └──────────────── lease lost, or stopped ◀─────────────────────┘
 *
 * Must stay true: a new owner reads marks only after it has the lease; while one batch is being stored the next is read and
 * formed, but batches are stored one after the other, so the committed time only goes forward.
 */
import type { ClickHouse } from '#clickhouse/client.ts';
import { encodeAnnouncements, type LaneMarks } from '#common/log/marks.ts';
import type { Nats } from '#common/nats.ts';
import { PostgresUnavailable } from '#common/postgres.ts';
import type { Time } from '#common/time.ts';
import type { FormedBatch } from './batch.ts';
import { type Checkpoints, LeaseLost } from './checkpoints.ts';
import { FrameQueue, type QueueLimits } from './frame-queue.ts';
import { HeldLease } from './held-lease.ts';
import { LogReader } from './log-reader.ts';
import { recoverBatches } from './recovery.ts';
import { Sink, type SinkCounters, type SinkParts } from './sink.ts';

export interface OwnerOptions {
  readonly partition: number;
  /** Unique among living processes; the same after a restart of this one. */
  readonly owner: string;
  readonly leaseSeconds: number;
  readonly nats: Nats;
  readonly limits: QueueLimits;
  readonly sink: SinkParts & { readonly checkpoints: Checkpoints; readonly clickhouse: ClickHouse };
  readonly counters: SinkCounters;
  readonly time: Time;
}

export type OwnerState = 'waiting' | 'recovering' | 'running' | 'stopped';

const acquirePollMs = 500;
/** How long a stop waits for ClickHouse and Postgres; what is not stored then comes again. */
const stopPatienceMs = 5_000;
const idleAnnounceMs = 1_000;
/** The age of the oldest record in the log. */
const backlogMaxMs = 3 * 86_400_000;
/** Journals of producers that were silent for so long are gone. */
const marksKeptDays = 120;

export class PartitionOwner {
  state: OwnerState = 'waiting';
  readonly #options: OwnerOptions;
  #lease: HeldLease | undefined;
  #queue: FrameQueue | undefined;
  #sink: Sink | undefined;
  #reader: LogReader | undefined;
  readonly #stopping = new AbortController();
  #committedTo = 0;
  #isStoring = false;
  #announcedAt = 0;
  #done: Promise<void> = Promise.resolve();
  #wake: (() => void) | undefined;

  constructor(options: OwnerOptions) {
    this.#options = options;
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  get partition(): number {
    return this.#options.partition;
  }

  get queue(): FrameQueue | undefined {
    return this.#queue;
  }

  get reader(): LogReader | undefined {
    return this.#reader;
  }

  /** Why ClickHouse takes no rows, while it refuses them; empty otherwise. */
  get refusal(): string {
    return this.#sink?.refusal ?? '';
  }

  /** Stream time (epoch ms) up to which everything is stored. */
  get committedTo(): number {
    return this.#committedTo;
  }

  start(): void {
    this.#done = this.#live();
  }

  /** Stores what is in hand, if its servers are there, and lets go of the lease. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake?.();
    this.#queue?.stop();
    const { time } = this.#options;
    const impatience = time.after(stopPatienceMs, () => this.#lease?.abandon());
    await this.#done;
    time.clear(impatience);
    this.state = 'stopped';
  }

  /** Tells publishers the marks of these producers, or of all. */
  announceAll(producerIds?: ReadonlySet<string>): void {
    if (this.state !== 'running' || this.#queue === undefined) return;
    this.#announce(this.#queue.marks.filter((lane) => producerIds === undefined || producerIds.has(lane.producer_id)));
  }

  async #live(): Promise<void> {
    while (!this.#isStopping) {
      this.state = 'waiting';
      const lease = await this.#acquire();
      if (lease === undefined) {
        await this.#pause(acquirePollMs);
        continue;
      }
      this.#lease = lease;
      try {
        await this.#own(lease);
      } catch (error) {
        if (error instanceof LeaseLost) {
          this.#options.sink.log({ partition: this.#options.partition }, error.message);
        } else if (!this.#isStopping) {
          throw error;
        }
      } finally {
        this.#reader?.stop();
        await lease.release();
      }
    }
  }

  async #acquire(): Promise<HeldLease | undefined> {
    const { sink, partition, owner, leaseSeconds, time } = this.#options;
    const askedAt = time.elapsed();
    try {
      const lease = await sink.checkpoints.acquire(partition, owner, leaseSeconds);
      if (lease === undefined) return undefined;
      return new HeldLease({
        checkpoints: sink.checkpoints,
        lease,
        seconds: leaseSeconds,
        time,
        askedAt,
        onLost: () => this.#queue?.stop(),
      });
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      return undefined;
    }
  }

  async #own(lease: HeldLease): Promise<void> {
    const { partition, sink, nats, limits, counters, time } = this.#options;
    this.state = 'recovering';
    const { checkpoints } = sink;
    await this.#whenThere(() => checkpoints.forgetMarks(partition, marksKeptDays));
    this.#committedTo = await this.#whenThere(() => checkpoints.streamTime(partition));
    const marks = await this.#whenThere(() => checkpoints.marks(partition));
    const queue = new FrameQueue(limits, marks, time, () => this.#reader?.resume());
    this.#queue = queue;
    if (this.#isStopping) return;
    const store = new Sink(sink, lease, queue, counters);
    this.#sink = store;
    const entries = await this.#whenThere(() => checkpoints.batches(partition));
    const log = (line: string) => sink.log({ partition }, line);
    await store.begin(this.#storedUntil());
    const { signal } = this.#stopping;
    await recoverBatches({
      entries,
      sink: store,
      nats,
      time,
      partition,
      position: () => this.#committedTo,
      log,
      signal,
    });
    if (this.#isStopping) return;
    if (entries.length > 0) await store.begin(this.#storedUntil());
    this.#reader = new LogReader({
      nats,
      time,
      partition,
      position: () => this.#committedTo,
      onFrame: (frame) => queue.push(frame),
      frames: { taken: () => queue.counters.frames, committed: () => queue.counters.committed_frames },
      onCaughtUp: () => this.#onCaughtUp(),
      log,
    });
    this.state = 'running';
    this.announceAll();
    this.#reader.start();
    await this.#run(store, queue);
  }

  /** Epoch ms; after days in which nobody was here, records come that were received days ago. */
  #storedUntil(): number {
    const now = this.#options.time.now();
    return Math.max(Math.min(this.#committedTo || now, now), now - backlogMaxMs);
  }

  /** While one batch is stored the next is formed. */
  async #run(sink: Sink, queue: FrameQueue): Promise<void> {
    const failure: { error?: unknown } = {};
    let storing: Promise<void> = Promise.resolve();
    for (;;) {
      const frames = await queue.take();
      if (frames.length === 0) break;
      const batch = await sink.form(frames);
      await storing;
      if ('error' in failure) break;
      storing = this.#store(sink, queue, batch).catch((error: unknown) => {
        failure.error = error;
        queue.stop();
      });
    }
    await storing;
    if ('error' in failure) throw failure.error;
  }

  async #store(sink: Sink, queue: FrameQueue, batch: FormedBatch): Promise<void> {
    this.#isStoring = true;
    try {
      await sink.store(batch);
    } finally {
      this.#isStoring = false;
    }
    this.#committedTo = Math.max(this.#committedTo, batch.streamTime);
    const producers = new Set(batch.frames.map((frame) => frame.header.producer_id));
    this.#announce(queue.marks.filter((lane) => producers.has(lane.producer_id)));
    this.#options.sink.failpoints.pass('announced');
  }

  /** All that the log holds was read; if none of it waits, everything up to now is stored. */
  #onCaughtUp(): void {
    const now = this.#options.time.now();
    if (this.#isStoring || this.#queue?.isEmpty !== true || now - this.#announcedAt < idleAnnounceMs) return;
    this.#announce([], now);
  }

  #announce(lanes: readonly LaneMarks[], committedTo = this.#committedTo): void {
    this.#announcedAt = this.#options.time.now();
    const { nats, partition } = this.#options;
    for (const bytes of encodeAnnouncements({ partition, committed_to: committedTo, lanes })) {
      nats.publish(nats.names.marks, bytes);
    }
  }

  async #whenThere<T>(step: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof PostgresUnavailable)) throw error;
        await this.#pause(acquirePollMs);
        if (this.#isStopping) throw error;
      }
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((done) => {
      const timer = this.#options.time.after(ms, () => this.#wake?.());
      this.#wake = () => {
        this.#options.time.clear(timer);
        this.#wake = undefined;
        done();
      };
    });
  }
}
