/** `npm run admin -- audit`: checks the analytics against the records, one day at a time. */
import { type Command, InvalidArgumentError } from 'commander';
import type { ClickHouse } from '#clickhouse/client.ts';
import { type AuditReport, audit } from '#clickhouse/queries/audit.ts';
import type { LostFrames } from '#clickhouse/queries/audit-frames.ts';
import { ledgerFrom } from '#clickhouse/queries/missing-rows.ts';
import { DAY_MS } from '#common/durations.ts';
import type { Queries } from '#common/stores/postgres.ts';

export interface AuditContext {
  /** Opened on first use; the caller closes it. @throws AdminError when none is configured. */
  readonly clickhouse: () => ClickHouse;
  readonly postgres: () => Pick<Queries, 'query'>;
  /** Frames that journals have lost since a time, epoch ms. */
  readonly lostSince: (from: number) => Promise<LostFrames[]>;
  readonly nowMs: () => number;
  readonly print: (line: string) => void;
  /** Called when something is wrong, for the exit code. */
  readonly onFaults: () => void;
}

function dateOption(text: string): number {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(ms)) throw new InvalidArgumentError('must be a date such as 2026-01-31.');
  return ms;
}

interface AuditOptions {
  readonly from?: number;
  readonly to?: number;
  readonly json?: boolean;
}

export function addAuditCommand(program: Command, context: AuditContext): void {
  program
    .command('audit')
    .description(
      'Check that the statistics are consistent: every rollup cell against its raw rows, every record against its position in ' +
        'the log, the positions against the clicks, and all rows against what ingest has stored. Exits with 1 if a check fails. Set CLICKHOUSE_URL to choose the server.',
    )
    .option('--from <date>', 'first day (UTC); default: 7 days ago', dateOption)
    .option('--to <date>', 'last day (UTC), inclusive; default: today', dateOption)
    .option('--json', 'print JSON')
    .action(async (options: AuditOptions) => {
      const now = context.nowMs();
      const to_ms = options.to === undefined ? now : options.to + DAY_MS;
      const from_ms = options.from ?? to_ms - 7 * DAY_MS;
      const known = {
        lost: await context.lostSince(from_ms - 2 * DAY_MS),
        ledger: await ledgerFrom(context.postgres()),
      };
      const report = await audit(context.clickhouse(), { from_ms, to_ms }, undefined, known);
      for (const line of options.json ? [JSON.stringify(report, null, 2)] : linesOf(report)) context.print(line);
      if (report.faults.length > 0) context.onFaults();
    });
}

function linesOf(report: AuditReport): string[] {
  const { from, to, days, records, lost, duplicated, rollup_difference, ledger_from, expired, faults } = report;
  return [
    `${from.slice(0, 10)} to ${to.slice(0, 10)}: ${days} days, ${records} records`,
    // A frame that cannot be read at all counts as one record.
    `lost ${faults.some(({ fault }) => fault === 'frames_lost') ? 'at least ' : ''}${lost}, duplicated ${duplicated}, rollup difference ${rollup_difference}`,
    ledger_from === null
      ? 'unknown: lost rows other than between clicks, because no stored rows are in the ledger yet'
      : `compared with the ledger of rows stored since ${ledger_from}: ${expired} have expired; earlier losses are unknown, other than between clicks`,
    ...faults.map(
      (fault) =>
        `${fault.bucket}  ${fault.producer_id ? `${fault.producer_id} frame ${fault.frame_no}` : fault.app_id || 'stored that day'}  ${fault.table}: ${fault.fault} (rows ${fault.rows}, cells ${fault.cells})`,
    ),
  ];
}
