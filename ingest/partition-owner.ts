/**
 * One partition of the log: waits for its lease, settles what the last owner left behind, then carries frames to the sink.
 *
 *   waiting ──lease──▶ recovering ──every BEFORE settled──▶ settled ──it may run──▶ running
 *      └──── not to be had ──▶ stopped ◀── lease lost, or stopped ──────┴─────────────────┘
 *
 * Must stay true: a new owner reads marks only after it has the lease; while one batch is being stored the next is read and
 * formed, but batches are stored one after the other, so the committed time only goes forward.
 */
import { encodeAnnouncements, type LaneFloor, type LaneMarks, laneKey } from '#common/log/marks.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import type { Time } from '#common/time.ts';
import { LeaseLost } from './checkpoints.ts';
import type { FormedBatch } from './formed-batch.ts';
import { FrameQueue, type QueueLimits } from './frame-queue.ts';
import { HeldLease } from './held-lease.ts';
import { LateLearner } from './late-learner.ts';
import { LogReader } from './log-reader.ts';
import { recoverBatches } from './recovery.ts';
import { revise } from './revision.ts';
import { Sink, type SinkParts } from './sink.ts';
import type { SinkCounters } from './sink-counters.ts';
import { StoppableWait } from './stoppable-wait.ts';

export interface OwnerOptions {
  readonly partition: number;
  /** Unique among living processes; the same after a restart of this one. */
  readonly owner: string;
  readonly leaseSeconds: number;
  /** Stands in every announcement of marks. */
  readonly installationId: string;
  readonly nats: NatsClient;
  readonly limits: QueueLimits;
  readonly sink: SinkParts;
  readonly counters: SinkCounters;
  readonly time: Time;
  /** Carries clicks to Redis for as long as the lease is held, also while ClickHouse is unavailable. */
  readonly feed?: { start(): Promise<void>; stop(): void } | undefined;
  /** Asked once all that was left behind is settled, until it says yes; what is stored is learned again then. */
  readonly mayRun?: () => boolean;
}

export type OwnerState = 'waiting' | 'recovering' | 'settled' | 'running' | 'stopped';

const revisionPollMs = 2_000;
/** How long a stop waits for ClickHouse and Postgres; what is not stored then comes again. */
const stopPatienceMs = 5_000;
const idleAnnounceMs = 1_000;
/** They are said again every few seconds. */
const floorsMax = 100_000;
const mayRunPollMs = 100;
/** The age of the oldest record in the log. */
const backlogMaxMs = 3 * 86_400_000;

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
  #areStraysFormed = false;
  #areStraysStored = false;
  #announcedAt = 0;
  readonly #floors = new Map<string, LaneFloor>();
  /** What is stored one after the other: batches, and what became known between them. */
  #turn: Promise<void> = Promise.resolve();
  /** Settles when the batch that was begun last is stored, or never will be. */
  #newestBatch: Promise<void> = Promise.resolve();
  /** Marks are moved without a batch; nothing is stored meanwhile. */
  #closing: Promise<void> = Promise.resolve();
  #done: Promise<void> = Promise.resolve();
  readonly #wait: StoppableWait;

  constructor(options: OwnerOptions) {
    this.#options = options;
    this.#wait = new StoppableWait(options.time, () => this.#isStopping);
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  get partition(): number {
    return this.#options.partition;
  }

  /** Whether it is ending: it takes nothing more, and lets go of its lease. */
  get isEnding(): boolean {
    return this.#isStopping || this.state === 'stopped';
  }

  /** Settles when it has let go. Rejects with what ought not to happen. */
  get ended(): Promise<void> {
    return this.#done;
  }

  /** Nothing waits or is being stored. */
  get isIdle(): boolean {
    return !this.#isStoring && this.#queue?.isEmpty === true;
  }

  /** Whether a record of a batch that is not decided yet is in another partition than its id belongs to. */
  get hasUndecidedStrays(): boolean {
    return this.#areStraysFormed || this.#areStraysStored;
  }

  /** The batch that is being formed has such a record. */
  noteStrays(): void {
    this.#areStraysFormed = true;
  }

  /** Throws when the lease is not to be kept. @throws LeaseLost */
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
    this.#wait.wake();
    this.#queue?.stop();
    const { time } = this.#options;
    const impatience = time.after(stopPatienceMs, () => this.#lease?.abandon());
    await this.#done;
    time.clear(impatience);
    this.state = 'stopped';
  }

  /** What publishers say that they still have; what is below and not committed is closed once the log was read to its end. */
  noteFloors(floors: readonly LaneFloor[]): void {
    for (const lane of floors) {
      if (lane.partition !== this.#options.partition || this.#floors.size >= floorsMax) continue;
      this.#floors.set(laneKey(lane.producer_id, lane), lane);
    }
  }

  /** Tells publishers the marks of these producers, or of all. */
  announceAll(producerIds?: ReadonlySet<string>): void {
    if (this.state !== 'running' || this.#queue === undefined) return;
    this.#announce(this.#queue.marks.filter((lane) => producerIds === undefined || producerIds.has(lane.producer_id)));
  }

  async #live(): Promise<void> {
    const lease = await this.#acquire();
    if (lease === undefined) {
      this.state = 'stopped';
      return;
    }
    this.#lease = lease;
    const { feed, sink, partition } = this.#options;
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
    this.#committedTo = await this.#wait.whenThere(() => checkpoints.streamTime(partition));
    const marks = await this.#wait.whenThere(() => checkpoints.marks(partition));
    const queue = new FrameQueue(limits, marks, time, () => this.#reader?.resume());
    this.#queue = queue;
    if (this.#isStopping) return;
    const store = new Sink(sink, lease, queue, counters);
    this.#sink = store;
    const entries = await this.#wait.whenThere(() => checkpoints.batches(partition));
    const log = (line: string) => sink.log({ partition }, line);
    await recoverBatches({
      lease: lease.lease,
      entries,
      marks,
      sink: store,
      store: sink.store,
      checkpoints,
      log: sink.log,
    });
    if (this.#isStopping) return;
    this.state = 'settled';
    await this.#waitToRun();
    if (this.#isStopping) return;
    const revision = await this.#wait.whenThere(() => checkpoints.revision(partition));
    if (revision !== undefined) {
      this.state = 'running';
      const { signal } = this.#stopping;
      await revise({ revision, lease, sink: store, parts: sink, limits, nats, time, signal });
      // Let go of and taken again, with the marks that there are now.
      return;
    }
    await store.begin(this.#storedUntil());
    const { late } = sink;
    if (late) await store.patiently(() => late.begin(partition));
    if (this.#isStopping) return;
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
    const look = time.every(revisionPollMs, () => void this.#lookForRevision(queue));
    const failure: { error?: unknown } = {};
    const learner = late && this.#learnerOf(late, store, queue, failure);
    learner?.start();
    try {
      await this.#run(store, queue, failure);
    } finally {
      time.clear(look);
      learner?.stop();
    }
  }

  #learnerOf(
    late: NonNullable<SinkParts['late']>,
    sink: Sink,
    queue: FrameQueue,
    failure: { error?: unknown },
  ): LateLearner {
    const { partition, time, sink: parts } = this.#options;
    return new LateLearner({
      ...{ partition, late, sink, queue, failure, time, log: parts.log },
      newestBatch: () => this.#newestBatch,
      inTurn: (work) => this.#inTurn(() => this.#whileStoring(work)),
    });
  }

  /** When an operator asks for something, what is in hand is stored and the partition is taken again. */
  async #lookForRevision(queue: FrameQueue): Promise<void> {
    const { sink, partition } = this.#options;
    try {
      if ((await sink.checkpoints.revision(partition)) !== undefined) queue.stop();
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
    }
  }

  /** Epoch ms; after days in which nobody was here, records come that were received days ago. */
  #storedUntil(): number {
    const now = this.#options.time.now();
    return Math.max(Math.min(this.#committedTo || now, now), now - backlogMaxMs);
  }

  async #waitToRun(): Promise<void> {
    const { mayRun = () => true } = this.#options;
    while (!mayRun() && !this.#isStopping && this.#lease?.isLost === false) await this.#wait.pause(mayRunPollMs);
  }

  /** While one batch is stored the next is formed. */
  async #run(sink: Sink, queue: FrameQueue, failure: { error?: unknown }): Promise<void> {
    let storing: Promise<void> = Promise.resolve();
    let decided: () => void = () => undefined;
    for (;;) {
      const frames = await queue.take();
      if (frames.length === 0) break;
      this.#areStraysFormed = false;
      this.#newestBatch = new Promise((done) => {
        decided = done;
      });
      const batch = await sink.form(frames).catch((error: unknown) => {
        failure.error ??= error;
      });
      await storing;
      if ('error' in failure || batch === undefined) break;
      this.#areStraysStored = this.#areStraysFormed;
      this.#areStraysFormed = false;
      storing = this.#inTurn(() => this.#store(sink, queue, batch))
        .catch((error: unknown) => {
          failure.error = error;
          queue.stop();
        })
        .finally(decided);
    }
    await storing;
    await this.#turn;
    decided();
    if ('error' in failure) throw failure.error;
    await this.#closing;
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  async #store(sink: Sink, queue: FrameQueue, batch: FormedBatch): Promise<void> {
    try {
      await this.#whileStoring(() => sink.store(batch));
    } finally {
      this.#areStraysStored = false;
    }
    this.#committedTo = Math.max(this.#committedTo, batch.streamTime);
    const producers = new Set(batch.frames.map((frame) => frame.header.producer_id));
    this.#announce(queue.marks.filter((lane) => producers.has(lane.producer_id)));
    this.#options.sink.failpoints.pass('announced');
  }

  async #whileStoring<T>(work: () => Promise<T>): Promise<T> {
    this.#isStoring = true;
    try {
      await this.#closing;
      return await work();
    } finally {
      this.#isStoring = false;
    }
  }

  /** All that the log holds was read; if none of it waits, everything up to now is stored. */
  #onCaughtUp(): void {
    const now = this.#options.time.now();
    if (this.#isStoring || this.#queue?.isEmpty !== true) return;
    this.#closeGaps(this.#queue);
    if (now - this.#announcedAt < idleAnnounceMs) return;
    this.#announce([], now);
  }

  #closeGaps(queue: FrameQueue): void {
    const gaps = queue.gapsBelow([...this.#floors.values()]);
    const sink = this.#sink;
    this.#floors.clear();
    if (gaps.length === 0 || sink === undefined) return;
    this.#closing = sink.closeGaps(gaps).then(() => this.#announce(gaps.map((gap) => gap.marks)));
    this.#closing.catch(() => queue.stop());
  }

  #announce(lanes: readonly LaneMarks[], committedTo = this.#committedTo): void {
    this.#announcedAt = this.#options.time.now();
    const { nats, partition, installationId: installation_id } = this.#options;
    for (const bytes of encodeAnnouncements({ installation_id, partition, committed_to: committedTo, lanes })) {
      nats.publish(nats.names.marks, bytes);
    }
  }
}
