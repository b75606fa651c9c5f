/**
 * A partition of the log as held by its owner: the lease, the waiting frames, the stores, and the retry loop for all
 * steps that need a store.
 *
 * Invariants:
 * - Nothing is sent while the lease is not certainly held.
 * - While ClickHouse or Postgres is unreachable, the owner waits without limit, keeps its batch in memory, and stops
 *   reading.
 */
import { ClickHouseFailure } from '#clickhouse/client.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { sleep, type Time } from '#common/time.ts';
import type { LateEvents } from './attribution/late-events.ts';
import type { BatchFormer } from './batch-former.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { Failpoints } from './failpoints.ts';
import type { StoreTimes } from './frame-clock.ts';
import type { FrameQueue } from './frame-queue.ts';
import type { HeldLease } from './held-lease.ts';
import { InDoubtFrames } from './in-doubt-frames.ts';
import type { RawStore } from './raw-store.ts';
import type { RefusedRowsSearch } from './refused-rows.ts';
import { delayOf } from './retry-delay.ts';
import type { SinkCounters } from './sink-counters.ts';

/** Parts that all partitions of a process share. */
export interface SinkParts {
  readonly checkpoints: Checkpoints;
  readonly store: RawStore;
  readonly former: Pick<BatchFormer, 'begin' | 'form'>;
  readonly refusedRows: RefusedRowsSearch;
  readonly failpoints: Failpoints;
  /** Attributes events that arrived before their install. */
  readonly late?: Pick<LateEvents, 'begin' | 'find' | 'look' | 'partsOf' | 'passed' | 'rewind'>;
  /** If absent, only the log bounds the times of records. */
  readonly storeTimes?: StoreTimes;
  readonly time: Time;
  readonly log: (fields: object, line: string, level?: 'warn') => void;
}

export class HeldPartition {
  readonly parts: SinkParts;
  readonly lease: HeldLease;
  readonly queue: FrameQueue;
  readonly counters: SinkCounters;
  /** Frames whose rows may be stored although no mark says so. */
  readonly inDoubt: InDoubtFrames;

  /** Where failed steps are counted, which `counters` may not show. */
  readonly failures: Pick<SinkCounters, 'retries' | 'refusals'>;

  constructor(
    parts: SinkParts,
    lease: HeldLease,
    queue: FrameQueue,
    counters: { readonly sink: SinkCounters; readonly failures?: Pick<SinkCounters, 'retries' | 'refusals'> },
  ) {
    this.parts = parts;
    this.lease = lease;
    this.queue = queue;
    this.counters = counters.sink;
    this.failures = counters.failures ?? counters.sink;
    this.inDoubt = new InDoubtFrames(lease.lease.partition);
  }

  get partition(): number {
    return this.lease.lease.partition;
  }

  /**
   * Repeats a step until the server that it needs is reachable, and accepts it. A step may run several times, so it must
   * be repeatable.
   * @throws LeaseLost
   */
  async patiently<T>(step: () => Promise<T>): Promise<T> {
    for (let tries = 0; ; tries++) {
      await this.lease.ensureHeld();
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof PostgresUnavailable) && !(error instanceof ClickHouseFailure)) throw error;
        const reason = error.message.slice(0, 300);
        if (error instanceof ClickHouseFailure && error.kind === 'refused') {
          this.failures.refusals++;
          this.parts.log(
            { reason, code: error.code },
            'ClickHouse refuses a request, which is repeated',
            tries === 0 ? 'warn' : undefined,
          );
        } else {
          this.failures.retries++;
          this.parts.log({ reason }, 'a server is unreachable');
        }
        await sleep(this.parts.time, delayOf(tries));
      }
    }
  }
}
