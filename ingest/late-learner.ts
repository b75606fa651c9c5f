/**
 * Gives events of a partition what became known of their install, for as long as the partition is owned: every two seconds it asks
 * for new installs, waits until every batch that was being formed is stored, and stores what it finds between two batches.
 */
import { sleep, type Time, type Timer } from '#common/time.ts';
import type { FoundInstalls, LateEvents } from './attribution/late-events.ts';
import type { FrameQueue } from './frame-queue.ts';
import { delayOf } from './retry-delay.ts';
import type { Sink } from './sink.ts';

export interface LateLearnerOptions {
  readonly partition: number;
  readonly late: Pick<LateEvents, 'find' | 'look' | 'partsOf' | 'passed'>;
  readonly sink: Sink;
  readonly time: Time;
  readonly log: (fields: object, line: string) => void;
  /** Of the partition's batches: once it is stopped, nothing more is learned. */
  readonly queue: Pick<FrameQueue, 'isStopped' | 'stop'>;
  /** Of all that is stored for the partition. */
  readonly failure: { error?: unknown };
  /** Settles when the batch that was begun last is stored, or never will be. */
  readonly newestBatch: () => Promise<void>;
  /** Runs what is stored when nothing else is. */
  readonly inTurn: (work: () => Promise<void>) => Promise<void>;
}

const pollMs = 2_000;
/** Of one poll, each of as many installs as `find` gives. */
const looksMax = 10;

export class LateLearner {
  readonly #options: LateLearnerOptions;
  #timer: Timer | undefined;
  #isLearning = false;

  constructor(options: LateLearnerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = this.#options.time.every(pollMs, () => void this.#learn());
  }

  stop(): void {
    if (this.#timer !== undefined) this.#options.time.clear(this.#timer);
  }

  async #learn(): Promise<void> {
    const { queue, failure } = this.#options;
    if (this.#isLearning) return;
    this.#isLearning = true;
    try {
      for (let looks = 0; looks < looksMax && !queue.isStopped; looks++) if (!(await this.look())) break;
    } catch (error) {
      failure.error ??= error;
      queue.stop();
    } finally {
      this.#isLearning = false;
    }
  }

  /** Looks at the next installs. @returns whether there were any. @throws LeaseLost */
  async look(): Promise<boolean> {
    const { sink, late, partition, newestBatch, inTurn, queue } = this.#options;
    const found = await sink.patiently(() => late.find(partition));
    if (found === null) return false;
    await newestBatch();
    let isMore = true;
    // Batches come in between: the log does not wait for what was late.
    while (isMore) {
      await inTurn(async () => {
        isMore = !queue.isStopped && (await this.#store(found));
      });
    }
    return true;
  }

  /**
   * What is in doubt is looked for, and then events are asked for again: what is stored of them is not found any more.
   * @returns whether more events may wait for these installs. @throws LeaseLost
   */
  async #store(found: FoundInstalls): Promise<boolean> {
    const { sink, late, partition, time, log } = this.#options;
    for (let tries = 0; ; tries++) {
      const look = await sink.patiently(() => late.look(partition, found));
      const events = look.events.length;
      const state = events === 0 ? 'stored' : await sink.storeAside((batch) => late.partsOf(look, batch));
      if (state === 'in_doubt') {
        await sleep(time, delayOf(tries));
        continue;
      }
      sink.counters[state === 'stored' ? 'learned' : 'learned_refused'] += events;
      if (state === 'refused') log({ partition, events }, 'ClickHouse refuses what became known of events');
      else if (look.isCut) return true;
      await sink.patiently(() => late.passed(partition, found));
      return false;
    }
  }
}
