/** Dependencies of the analytics endpoints. */
import { FairQueue } from '#api/fair-queue.ts';
import type { ClickHouse, Settings } from '#clickhouse/client.ts';
import type { BreakdownRow } from '#clickhouse/queries/link.ts';
import type { Clock } from '#common/clock.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { Tenancy } from '#common/stores/tenancy.ts';
import type { AuditedHour } from './audit-turns.ts';
import { CountKeyedCache } from './count-keyed-cache.ts';
import type { ExchangeRates } from './exchange-rates.ts';
import type { Amount } from './metrics.ts';
import type { PipelineState } from './pipeline-state.ts';

/** Caches of results. */
export interface FigureCaches {
  readonly uniqueClicks: CountKeyedCache<number>;
  readonly revenue: CountKeyedCache<readonly Amount[]>;
  readonly linksOfCampaigns: CountKeyedCache<number>;
  readonly breakdowns: CountKeyedCache<readonly BreakdownRow[]>;
}

export interface AnalyticsParts {
  /** A read-only client. */
  readonly clickhouse: ClickHouse;
  /** Queue of queries, by organization. */
  readonly queue: FairQueue;
  /** Queue of long streams, by organization. */
  readonly exports: FairQueue;
  /** The instant (epoch ms) before which the statistics include every accepted record. */
  readonly asOf: () => Promise<number>;
  /** The audited hours since a time (epoch ms), oldest first. */
  readonly auditsSince: (sinceMs: number) => Promise<readonly AuditedHour[]>;
  /** When the database of countries was made, as ISO 8601; null if it cannot be read. */
  readonly countriesAsOf: string | null;
  readonly pipelineState: () => Promise<PipelineState>;
  readonly exchangeRates: ExchangeRates;
  /** Age in days beyond which records are dropped; older records are not shown, even if they still exist. */
  readonly retentionDays: number;
  readonly kept: FigureCaches;
  /** Limits of one query. */
  readonly limits: Settings;
}

export interface AnalyticsDeps {
  readonly db: Queries;
  readonly tenancy: Tenancy;
  readonly clock: Clock;
  readonly analytics: AnalyticsParts;
  readonly shortUrl: ShortUrl;
}

export const questionLimits: Settings = {
  max_execution_time: 8,
  timeout_before_checking_execution_speed: 0,
  max_rows_to_read: 300_000_000,
  max_memory_usage: 1_500_000_000,
  max_threads: 2,
};

const queueLimits = { runningMax: 8, perKeyMax: 4, waitingMax: 40, keysMax: 2_000 } as const;
/** Set so that no single organization can use all slots. */
const exportLimits = { runningMax: 4, perKeyMax: 2, waitingMax: 4, keysMax: 100 } as const;

/**
 * Cache sizes: unique clicks and amounts of page rows (about 250 bytes each), and rows of breakdowns (200 bytes each).
 */
const keptNumbersMax = 20_000;
const keptBreakdownRowsMax = 20_000;

export function analyticsParts(parts: Omit<AnalyticsParts, 'queue' | 'exports' | 'limits' | 'kept'>): AnalyticsParts {
  return {
    ...parts,
    limits: questionLimits,
    queue: new FairQueue(queueLimits),
    exports: new FairQueue(exportLimits),
    kept: {
      uniqueClicks: new CountKeyedCache(keptNumbersMax),
      revenue: new CountKeyedCache(keptNumbersMax, (amounts) => amounts.length),
      linksOfCampaigns: new CountKeyedCache(keptNumbersMax),
      breakdowns: new CountKeyedCache(keptBreakdownRowsMax, (rows) => rows.length),
    },
  };
}
