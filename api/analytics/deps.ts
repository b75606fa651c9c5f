/** What the analytics endpoints are given. */
import type { ClickHouse, Settings } from '#clickhouse/client.ts';
import type { Clock } from '#common/clock.ts';
import type { Tenancy } from '#common/tenancy.ts';
import { FairQueue } from './fair-queue.ts';

export interface AnalyticsParts {
  /** One that can only read. */
  readonly clickhouse: ClickHouse;
  /** By organization. */
  readonly queue: FairQueue;
  /** Long streams, by user. */
  readonly exports: FairQueue;
  /** The instant (epoch ms) before which everything accepted is in the figures. */
  readonly asOf: () => Promise<number>;
  /** Age in days beyond which records are dropped: nothing older is shown, whether it is gone already or not. */
  readonly retentionDays: number;
  /** What one question may cost. */
  readonly limits: Settings;
}

export interface AnalyticsDeps {
  readonly tenancy: Tenancy;
  readonly clock: Clock;
  readonly analytics: AnalyticsParts;
}

export const questionLimits: Settings = {
  max_execution_time: 8,
  timeout_before_checking_execution_speed: 0,
  max_rows_to_read: 300_000_000,
  max_memory_usage: 1_500_000_000,
  max_threads: 2,
};

const queueLimits = { runningMax: 8, perKeyMax: 4, waitingMax: 40, keysMax: 2_000 } as const;
const exportLimits = { runningMax: 3, perKeyMax: 1, waitingMax: 2, keysMax: 100 } as const;

export function analyticsParts(parts: Omit<AnalyticsParts, 'queue' | 'exports' | 'limits'>): AnalyticsParts {
  return { ...parts, limits: questionLimits, queue: new FairQueue(queueLimits), exports: new FairQueue(exportLimits) };
}
