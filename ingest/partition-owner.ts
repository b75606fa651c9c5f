/**
 * One partition of the log: waits for its lease, reconciles what the last owner left behind, then passes frames to the
 * sink.
 *
 *   waiting ──lease, hasSchema()──▶ recovering ──every BEFORE reconciled──▶ settled ──mayRun()──▶ running
 *      └──── not available ──▶ stopped ◀── lease lost, or stopped ──────────┴──────────────┘
 *
 * Invariant: a new owner reads marks only after it has the lease.
 */
import { DAY_MS } from '#common/durations.ts';
import type { LaneFloor } from '#common/log/marks.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import type { Time } from '#common/time.ts';
import { LeaseLost } from './checkpoints.ts';
import type { LogFrame } from './formed-batch.ts';
import { FrameQueue, type QueueLimits } from './frame-queue.ts';
import { HeldLease } from './held-lease.ts';
import { HeldPartition, type SinkParts } from './held-partition.ts';
import { LateLearner } from './late-learner.ts';
import { LogReader, type ReaderProgress } from './log-reader.ts';
import { MarkExchange } from './mark-exchange.ts';
import { recoverBatches } from './recovery.ts';
import { revise } from './revision.ts';
import { Sink } from './sink.ts';
import type { SinkCounters } from './sink-counters.ts';
import { StoppableWait } from './stoppable-wait.ts';
import { StoringLoop } from './storing-loop.ts';

export interface OwnerOptions {
  readonly partition: number;
  /** Unique among live processes; the same after a restart of this one. */
  readonly owner: string;
  readonly leaseSeconds: number;
  /** Included in every announcement of marks. */
  readonly installationId: string;
  readonly nats: NatsClient;
  readonly limits: QueueLimits;
  readonly sink: SinkParts;
  readonly counters: SinkCounters;
  readonly time: Time;
  /** Copies clicks to Redis for as long as the lease is held, also while ClickHouse is unavailable. */
  readonly feed?: OwnerFeed | undefined;
  /** Polled, before anything is sent to ClickHouse, until it returns true. */
  readonly hasSchema?: (() => boolean) | undefined;
  /**
   * Polled, once the batches of earlier owners are reconciled, until it returns true. Stored ids are loaded after that.
   */
  readonly mayRun?: () => boolean;
}

export interface OwnerFeed {
  start(): Promise<void>;
  /** Called with each frame that the owner's reader delivers. */
  take(frame: LogFrame, reader: ReaderProgress): void;
  stop(): void;
}

export type OwnerState = 'waiting' | 'recovering' | 'settled' | 'running' | 'stopped';

const revisionPollMs = 2_000;
/** How long a stop waits for ClickHouse and Postgres; records not stored by then are delivered again. */
const stopPatienceMs = 5_000;
const pollMs = 100;
/** Maximum age of a record in the log. */
const backlogMaxMs = 3 * DAY_MS;

export class PartitionOwner {
  state: OwnerState = 'waiting';
  readonly #options: OwnerOptions;
  readonly #exchange: MarkExchange;
  #lease: HeldLease | undefined;
  #queue: FrameQueue | undefined;
  #sink: Sink | undefined;
  #loop: StoringLoop | undefined;
  #reader: LogReader | undefined;
  readonly #stopping = new AbortController();
  #done: Promise<void> = Promise.resolve();
  readonly #wait: StoppableWait;

  constructor(options: OwnerOptions) {
    this.#options = options;
    this.#exchange = new MarkExchange({ ...options, committedAt: () => this.#reader?.committedAt });
    this.#wait = new StoppableWait(options.time, () => this.#isStopping);
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  get partition(): number {
    return this.#options.partition;
  }

  /** Whether it is stopping or stopped: it takes no more frames, and releases its lease. */
  get isEnding(): boolean {
    return this.#isStopping || this.state === 'stopped';
  }

  /** Settles when the lease is released. Rejects with errors that must not happen. */
  get ended(): Promise<void> {
    return this.#done;
  }

  /** Whether no frame waits or is being stored. */
  get isIdle(): boolean {
    return this.#loop?.isIdle === true;
  }

  /** Whether a batch that is not decided yet has a record in a partition other than that of its id. */
  get hasUndecidedStrays(): boolean {
    return this.#loop?.hasUndecidedStrays === true;
  }

  /** Notes that the batch being formed has such a record. */
  noteStrays(): void {
    this.#loop?.noteStrays();
  }

  /** Throws if the lease will not be kept. @throws LeaseLost */
  ensureStays(): void {
    if (this.#lease === undefined || this.#lease.isLost || this.isEnding)
      throw new LeaseLost({ partition: this.#options.partition, epoch: 0 });
  }

  get queue(): FrameQueue | undefined {
    return this.#queue;
  }

  get reader(): LogReader | undefined {
    return this.#reader;
  }

  /** Why ClickHouse refuses rows; empty if it does not. */
  get refusal(): string {
    return this.#sink?.refusal ?? '';
  }

  start(): void {
    this.#done = this.#live();
  }

  /** Stores the batch in progress, if its servers are reachable, and releases the lease. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wait.wake();
    this.#queue?.stop();
    const { time } = this.#options;
    const impatience = time.after(stopPatienceMs, () => this.#lease?.abandon());
    await this.#done;
    time.clear(impatience);
    this.state = 'stopped';
  }

  /**
   * Notes the oldest frames that publishers still have. Gaps below them are closed once the log was read to its end.
   */
  noteFloors(floors: readonly LaneFloor[]): void {
    this.#exchange.noteFloors(floors);
  }

  /** Announces to publishers the marks of these producers, or of all. */
  announceAll(producerIds?: ReadonlySet<string>): void {
    if (this.state !== 'running' || this.#queue === undefined) return;
    const isAsked = (producerId: string) => producerIds?.has(producerId) ?? true;
    this.#exchange.announce(this.#queue.marks.filter((lane) => isAsked(lane.producer_id)));
  }

  async #live(): Promise<void> {
    const { feed, sink, partition, owner, leaseSeconds, time } = this.#options;
    const { checkpoints } = sink;
    const onLost = () => this.#queue?.stop();
    const lease = await HeldLease.acquire({ checkpoints, partition, owner, seconds: leaseSeconds, time, onLost });
    if (lease === undefined) {
      this.state = 'stopped';
      return;
    }
    this.#lease = lease;
    void feed?.start();
    try {
      if (!this.#isStopping) await this.#own(lease);
    } catch (error) {
      if (error instanceof LeaseLost) sink.log({ partition }, error.message);
      else if (!this.#isStopping) throw error;
    } finally {
      feed?.stop();
      this.#reader?.stop();
      await lease.release();
      this.state = 'stopped';
    }
  }

  async #own(lease: HeldLease): Promise<void> {
    const { partition, sink: parts, nats, limits } = this.#options;
    const { checkpoints } = parts;
    await this.#until(this.#options.hasSchema);
    if (this.#isStopping) return;
    const sink = await this.#recover(lease);
    if (sink === undefined) return;
    this.state = 'settled';
    await this.#until(this.#options.mayRun);
    if (this.#isStopping) return;
    const revision = await this.#wait.whenThere(() => checkpoints.revision(partition));
    if (revision !== undefined) {
      this.state = 'running';
      await revise({ revision, sink, limits, nats, signal: this.#stopping.signal });
      // The lease is released and acquired again, with the current marks.
      return;
    }
    await sink.batches.begin(this.#storedUntil());
    const { late } = parts;
    if (late) await sink.held.patiently(() => late.begin(partition));
    if (this.#isStopping) return;
    await this.#run(sink);
  }

  /**
   * @returns the sink of this lease, with every batch of earlier owners reconciled; `undefined` if it is stopped in the
   * meantime.
   */
  async #recover(lease: HeldLease): Promise<Sink | undefined> {
    const { partition, sink: parts, limits, counters, time } = this.#options;
    const { checkpoints } = parts;
    this.state = 'recovering';
    this.#exchange.committedTo = await this.#wait.whenThere(() => checkpoints.streamTime(partition));
    const marks = await this.#wait.whenThere(() => checkpoints.marks(partition));
    const queue = new FrameQueue(limits, marks, time, () => this.#reader?.resume());
    this.#queue = queue;
    if (this.#isStopping) return undefined;
    const sink = new Sink(new HeldPartition(parts, lease, queue, { sink: counters }));
    this.#sink = sink;
    this.#loop = new StoringLoop(sink, this.#exchange);
    const entries = await this.#wait.whenThere(() => checkpoints.batches(partition));
    await recoverBatches({ sink, entries, marks });
    return this.#isStopping ? undefined : sink;
  }

  async #run(sink: Sink): Promise<void> {
    const { partition, sink: parts, nats, time, feed } = this.#options;
    const { queue } = sink.held;
    const loop = this.#loop;
    if (loop === undefined) throw new Error(`Partition ${partition} runs before it was recovered.`);
    const reader: LogReader = new LogReader({
      nats,
      time,
      partition,
      storeTimes: parts.storeTimes,
      position: () => this.#exchange.committedTo,
      onFrame: (frame) => {
        feed?.take(frame, reader);
        return queue.push(frame);
      },
      frames: { taken: () => queue.counters.frames, committed: () => queue.counters.committed_frames },
      onCaughtUp: () => this.#onCaughtUp(loop),
      log: (line) => parts.log({ partition }, line),
    });
    this.#reader = reader;
    this.state = 'running';
    this.announceAll();
    reader.start();
    const look = time.every(revisionPollMs, () => void this.#lookForRevision(queue));
    const learner = parts.late && new LateLearner({ late: parts.late, sink, loop });
    learner?.start();
    try {
      await loop.run();
    } finally {
      time.clear(look);
      learner?.stop();
    }
  }

  /** Everything in the log was read; if no frame waits, everything up to now is stored. */
  #onCaughtUp(loop: StoringLoop): void {
    loop.closeGaps();
    if (loop.isIdle) this.#exchange.announceIdle();
  }

  /** On an operator's request, stores the batch in progress and acquires the partition again. */
  async #lookForRevision(queue: FrameQueue): Promise<void> {
    const { sink, partition } = this.#options;
    try {
      if ((await sink.checkpoints.revision(partition)) !== undefined) queue.stop();
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
    }
  }

  /** Epoch ms. Limited to `backlogMaxMs`: after days without an owner, records arrive that were received days ago. */
  #storedUntil(): number {
    const now = this.#options.time.now();
    return Math.max(Math.min(this.#exchange.committedTo || now, now), now - backlogMaxMs);
  }

  async #until(isSo = () => true): Promise<void> {
    while (!isSo() && !this.#isStopping && this.#lease?.isLost === false) await this.#wait.pause(pollMs);
  }
}
