/**
 * Takes frames from the queue and stores them batch by batch.
 *
 * Invariant: while one batch is being stored the next is formed, but batches, late attributions and closed gaps are
 * stored one after another, so the committed time never goes back.
 */
import type { FormedBatch } from './formed-batch.ts';
import type { MarkExchange } from './mark-exchange.ts';
import type { Sink } from './sink.ts';

export class StoringLoop {
  readonly #sink: Sink;
  readonly #exchange: MarkExchange;
  #isStoring = false;
  #areStraysFormed = false;
  #areStraysStored = false;
  /** Serializes everything that is stored: batches, and late attributions between them. */
  #turn: Promise<void> = Promise.resolve();
  #newestBatch: Promise<void> = Promise.resolve();
  #failure: { readonly error: unknown } | undefined;

  constructor(sink: Sink, exchange: MarkExchange) {
    this.#sink = sink;
    this.#exchange = exchange;
  }

  /** Whether no frame waits or is being stored. */
  get isIdle(): boolean {
    return !this.#isStoring && this.#sink.held.queue.isEmpty;
  }

  /** Whether a batch that is not decided yet has a record in a partition other than that of its id. */
  get hasUndecidedStrays(): boolean {
    return this.#areStraysFormed || this.#areStraysStored;
  }

  /** Notes that the batch being formed has such a record. */
  noteStrays(): void {
    this.#areStraysFormed = true;
  }

  /** Settles when the most recently begun batch is stored, or will never be stored. */
  get newestBatch(): Promise<void> {
    return this.#newestBatch;
  }

  /** Ends the loop; `run` throws the first failure. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#sink.held.queue.stop();
  }

  /** Runs until the queue is stopped. @throws LeaseLost */
  async run(): Promise<void> {
    let storing: Promise<void> = Promise.resolve();
    let decided: () => void = () => undefined;
    for (;;) {
      const frames = await this.#sink.held.queue.take();
      if (frames.length === 0) break;
      this.#areStraysFormed = false;
      this.#newestBatch = new Promise((done) => {
        decided = done;
      });
      const batch = await this.#sink.batches.form(frames).catch((error: unknown) => {
        this.#failure ??= { error };
      });
      await storing;
      if (this.#failure !== undefined || batch === undefined) break;
      this.#areStraysStored = this.#areStraysFormed;
      this.#areStraysFormed = false;
      storing = this.#inOrder(() => this.#store(batch))
        .catch((error: unknown) => this.fail(error))
        .finally(decided);
    }
    await storing;
    await this.#turn;
    decided();
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Runs work that stores something while nothing else is being stored. */
  inTurn(work: () => Promise<void>): Promise<void> {
    return this.#inOrder(() => this.#whileStoring(work));
  }

  /**
   * Closes the gaps that publishers have announced, as soon as nothing is being stored. Call only when everything in the
   * log was read.
   */
  closeGaps(): void {
    const { queue } = this.#sink.held;
    const floors = this.#exchange.takeFloors();
    // No frame of such a lane may ever come.
    const unknown = queue.lanesToLearn(floors.filter(({ lost }) => lost !== undefined));
    if (queue.gapsIn(floors).length + unknown.length === 0) return;
    const closed = this.inTurn(async () => {
      await this.#sink.batches.recallMarks(unknown);
      const gaps = queue.gapsIn(floors);
      await this.#sink.closeGaps(gaps);
      this.#exchange.announce(gaps.map((gap) => gap.marks));
    });
    closed.catch((error: unknown) => this.fail(error));
  }

  #inOrder(work: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  async #store(batch: FormedBatch): Promise<void> {
    try {
      await this.#whileStoring(() => this.#sink.store(batch));
    } finally {
      this.#areStraysStored = false;
    }
    const exchange = this.#exchange;
    exchange.committedTo = Math.max(exchange.committedTo, batch.streamTime);
    const producers = new Set(batch.frames.map((frame) => frame.header.producer_id));
    exchange.announce(this.#sink.held.queue.marks.filter((lane) => producers.has(lane.producer_id)));
    this.#sink.held.parts.failpoints.pass('announced');
  }

  async #whileStoring(work: () => Promise<void>): Promise<void> {
    this.#isStoring = true;
    try {
      await work();
    } finally {
      this.#isStoring = false;
    }
  }
}
