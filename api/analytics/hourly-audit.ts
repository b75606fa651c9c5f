/**
 * Audits the last closed hour, once an hour, and exposes metrics for alerts. An hour is audited some
 * minutes after its end, when its records are stored; while ingest is behind, only stored records are audited.
 */
import { Gauge, type Registry } from 'prom-client';
import { type ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { type AuditFigures, auditHour } from '#clickhouse/queries/audit.ts';
import type { Clock } from '#common/clock.ts';
import { HOUR_MS } from '#common/durations.ts';
import type { Part } from '#common/process/lifecycle.ts';
import type { Log } from '#common/process/telemetry.ts';

/** After the end of an hour. */
const settlingMs = 10 * 60_000;
/** After ClickHouse could not be queried. */
const retryMs = 5 * 60_000;

export interface HourlyAuditParts {
  readonly clickhouse: Pick<ClickHouse, 'query'>;
  readonly metrics: Registry;
  readonly log: Pick<Log, 'warn' | 'error'>;
  readonly clock: Clock;
}

export class HourlyAudit implements Part {
  readonly name = 'audit';
  readonly #parts: HourlyAuditParts;
  readonly #gauge: Gauge<'what'>;
  readonly #auditedTo: Gauge;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(parts: HourlyAuditParts) {
    this.#parts = parts;
    const registers = [parts.metrics];
    this.#gauge = new Gauge({
      name: 'audit_faults',
      help: 'In the last closed hour: lost clicks (at least), duplicate records, rollup cells that differ. All must be 0.',
      labelNames: ['what'],
      registers,
    });
    this.#auditedTo = new Gauge({
      name: 'audit_to_seconds',
      help: 'End of the hour that audit_faults is about, seconds since 1970; 0 before the first.',
      registers,
    });
  }

  start(): void {
    this.#waitUntil(this.#parts.clock());
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  /** Audits the last closed hour. @returns when to run again, epoch ms. */
  async look(): Promise<number> {
    const { clickhouse, log, clock } = this.#parts;
    const hour = Math.floor((clock() - settlingMs) / HOUR_MS) * HOUR_MS - HOUR_MS;
    try {
      const figures = await auditHour(clickhouse, hour);
      this.#show(figures, hour);
      return hour + 2 * HOUR_MS + settlingMs;
    } catch (error) {
      if (!(error instanceof ClickHouseFailure)) throw error;
      log.warn({ reason: error.message }, 'the last hour could not be audited');
      return clock() + retryMs;
    }
  }

  #show(figures: AuditFigures, hour: number): void {
    for (const [what, count] of Object.entries(figures)) this.#gauge.set({ what }, count);
    this.#auditedTo.set((hour + HOUR_MS) / 1000);
    const isClean = Object.values(figures).every((count) => count === 0);
    if (!isClean) {
      const fields = { ...figures, hour: new Date(hour).toISOString() };
      this.#parts.log.error(
        fields,
        'the figures of an hour do not match its records: run npm run admin -- audit to find out where',
      );
    }
  }

  #waitUntil(ms: number): void {
    if (this.#isStopped) return;
    const wait = Math.max(0, ms - this.#parts.clock());
    this.#timer = setTimeout(() => {
      this.#running = this.look().then((next) => this.#waitUntil(next));
    }, wait);
    this.#timer.unref();
  }
}
