/** What the analytics endpoints are given. */
import type { ClickHouse } from '#clickhouse/client.ts';
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
}

export interface AnalyticsDeps {
  readonly tenancy: Tenancy;
  readonly clock: Clock;
  readonly analytics: AnalyticsParts;
}

const queueLimits = { runningMax: 6, perKeyMax: 3, waitingMax: 40, keysMax: 2_000 } as const;
const exportLimits = { runningMax: 3, perKeyMax: 1, waitingMax: 2, keysMax: 100 } as const;

export function analyticsParts(parts: Omit<AnalyticsParts, 'queue' | 'exports'>): AnalyticsParts {
  return { ...parts, queue: new FairQueue(queueLimits), exports: new FairQueue(exportLimits) };
}
