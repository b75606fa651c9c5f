/**
 * Attributes events of a partition that arrived before their install, as long as the partition is owned. Every two
 * seconds it looks for new installs, waits until every batch that was being formed is stored, and stores the attributed
 * events between two batches.
 */
import { sleep, type Timer } from '#common/time.ts';
import type { FoundInstalls, LateEvents } from './attribution/late-events.ts';
import { delayOf } from './retry-delay.ts';
import type { Sink } from './sink.ts';
import type { StoringLoop } from './storing-loop.ts';

export interface LateLearnerOptions {
  readonly late: Pick<LateEvents, 'find' | 'look' | 'partsOf' | 'passed'>;
  /** After its queue is stopped, no more events are attributed. */
  readonly sink: Sink;
  readonly loop: Pick<StoringLoop, 'newestBatch' | 'inTurn' | 'fail'>;
}

const pollMs = 2_000;
/** Maximum looks per poll; each handles the installs that one `find` returns. */
const looksMax = 10;

export class LateLearner {
  readonly #options: LateLearnerOptions;
  #timer: Timer | undefined;
  #isLearning = false;

  constructor(options: LateLearnerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = this.#options.sink.held.parts.time.every(pollMs, () => void this.#learn());
  }

  stop(): void {
    if (this.#timer !== undefined) this.#options.sink.held.parts.time.clear(this.#timer);
  }

  async #learn(): Promise<void> {
    const { sink, loop } = this.#options;
    const { queue } = sink.held;
    if (this.#isLearning) return;
    this.#isLearning = true;
    try {
      for (let looks = 0; looks < looksMax && !queue.isStopped; looks++) if (!(await this.look())) break;
    } catch (error) {
      loop.fail(error);
    } finally {
      this.#isLearning = false;
    }
  }

  /** Handles the next installs. @returns whether there were any. @throws LeaseLost */
  async look(): Promise<boolean> {
    const { sink, late, loop } = this.#options;
    const { held } = sink;
    const found = await held.patiently(() => late.find(held.partition));
    if (found === null) return false;
    await loop.newestBatch;
    let isMore = true;
    // Other batches are stored in between: the log does not wait for late attributions.
    while (isMore) {
      await loop.inTurn(async () => {
        isMore = !held.queue.isStopped && (await this.#store(found));
      });
    }
    return true;
  }

  /**
   * If its batch is in doubt, the batch is reconciled and the events are looked up again: stored events are not found
   * again.
   * @returns whether more events may wait for these installs.
   * @throws LeaseLost
   */
  async #store(found: FoundInstalls): Promise<boolean> {
    const { sink, late } = this.#options;
    const { held } = sink;
    const { partition, counters } = held;
    const { time, log } = held.parts;
    for (let tries = 0; ; tries++) {
      const look = await held.patiently(() => late.look(partition, found));
      const events = look.events.length;
      const state = events === 0 ? 'stored' : await sink.storeAside((batch) => late.partsOf(look, batch));
      if (state === 'in_doubt') {
        await sleep(time, delayOf(tries));
        continue;
      }
      counters[state === 'stored' ? 'learned' : 'learned_refused'] += events;
      if (state === 'refused') log({ partition, events }, 'ClickHouse refuses late attributions of events');
      else if (look.isCut) return true;
      await held.patiently(() => late.passed(partition, found));
      return false;
    }
  }
}
