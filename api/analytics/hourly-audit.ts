/**
 * Audits each complete hour, once per installation, and exposes metrics for alerts in every API process.
 * An hour is audited some minutes after its end, when its records are stored. If ingest lags, only the stored records
 * are audited.
 */
import { Gauge, type Registry } from 'prom-client';
import { type ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { type AuditFigures, auditHour, type HourReport } from '#clickhouse/queries/audit.ts';
import type { Clock } from '#common/clock.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import type { Part } from '#common/process/lifecycle.ts';
import type { Log } from '#common/process/telemetry.ts';
import { Worker, type WorkerTime } from '#common/process/worker.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import type { AuditTurns } from './audit-turns.ts';

/** Delay after the end of an hour. */
const settlingMs = 10 * 60_000;
/** Pause while another process audits the hour. */
const othersMs = 30_000;
/** Pause after ClickHouse or Postgres was unavailable. */
const retryMs = 5 * 60_000;

export interface HourlyAuditParts {
  readonly clickhouse: Pick<ClickHouse, 'query'>;
  readonly turns: AuditTurns;
  readonly metrics: Registry;
  readonly log: Pick<Log, 'warn' | 'error'>;
  readonly clock: Clock;
  /** Replaced in tests. */
  readonly time?: WorkerTime;
}

export class HourlyAudit implements Part {
  readonly name = 'audit';
  readonly #parts: HourlyAuditParts;
  readonly #gauge: Gauge<'what'>;
  readonly #auditedTo: Gauge;
  readonly #worker: Worker;

  constructor(parts: HourlyAuditParts) {
    this.#parts = parts;
    this.#worker = new Worker({
      ...{ name: this.name, everyMs: retryMs, log: parts.log, time: parts.time },
      pass: async () => Math.max(0, (await this.look()) - parts.clock()),
      ...{ failing: 'the hourly audit failed', working: 'the hourly audit works again' },
    });
    const registers = [parts.metrics];
    this.#gauge = new Gauge({
      name: 'signpost_audit_faults',
      help: 'In the last closed hour: lost records (at least, in part of older hours), duplicate records, rollup cells that differ. All must be 0.',
      labelNames: ['what'],
      registers,
    });
    this.#auditedTo = new Gauge({
      name: 'signpost_audit_to_seconds',
      help: 'End of the hour that signpost_audit_faults is about, seconds since 1970; 0 before the first.',
      registers,
    });
  }

  start(): void {
    this.#worker.start();
  }

  async stop(): Promise<void> {
    await this.#worker.stop();
  }

  /** Audits the closed hours that are not audited yet. @returns when to run again, epoch ms. */
  async look(): Promise<number> {
    const { turns, log, clock } = this.#parts;
    const last = Math.floor((clock() - settlingMs) / HOUR_MS) * HOUR_MS - HOUR_MS;
    try {
      for (let hour = await turns.due(last); hour <= last && !this.#worker.isStopped; hour += HOUR_MS) {
        const turn = await turns.begin(hour);
        if (turn.kind === 'others') return clock() + othersMs;
        this.#show(turn.kind === 'done' ? turn.figures : await this.#audit(hour), hour);
      }
      return last + 2 * HOUR_MS + settlingMs;
    } catch (error) {
      if (!(error instanceof ClickHouseFailure) && !(error instanceof PostgresUnavailable)) throw error;
      log.warn({ reason: error.message }, 'the hourly audit failed');
      return clock() + retryMs;
    }
  }

  async #audit(hour: number): Promise<AuditFigures> {
    const { clickhouse, turns, log } = this.#parts;
    let report: HourReport;
    try {
      const known = { lost: await turns.lostSince(hour - DAY_MS), ledger: await turns.ledger(hour) };
      report = await auditHour(clickhouse, hour, known);
    } catch (error) {
      await turns.giveUp(hour).catch(() => undefined);
      throw error;
    }
    await turns.done(hour, report);
    const { figures } = report;
    if (Object.values(figures).some((count) => count > 0)) {
      const fields = { ...figures, hour: new Date(hour).toISOString() };
      log.error(
        fields,
        'the figures of an hour do not match its records: run npm run admin -- audit to find out where',
      );
    }
    return figures;
  }

  #show(figures: AuditFigures, hour: number): void {
    for (const [what, count] of Object.entries(figures)) this.#gauge.set({ what }, count);
    this.#auditedTo.set((hour + HOUR_MS) / 1000);
  }
}
