/**
 * Tries a backup out: restores it into a folder beside it, starts Postgres and ClickHouse from there, and audits what they
 * have. No process of Signpost runs, so nothing is sent to anyone.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { lostFramesSince } from '#api/analytics/audit-turns.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import { type AuditReport, audit } from '#clickhouse/queries/audit.ts';
import { ledgerFrom } from '#clickhouse/queries/missing-rows.ts';
import { DAY_MS } from '#common/durations.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { StartupError } from '#deploy/local/child.ts';
import { builtClickHouse, startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { makeNewFolder, refuseForeignPlace } from '#deploy/local/new-folder.ts';
import { startPostgres } from '#deploy/local/postgres.ts';
import { restore } from './restore.ts';

export interface Trial {
  readonly started_at: string;
  readonly links: number;
  readonly report: AuditReport;
  readonly doubt: string | null;
}

/** @throws StartupError if other users can write beside the backup, it cannot be restored, a server does not start from it, or the audit finds a fault. */
export async function tryRestore(folder: string, clickhouseEntry = builtClickHouse()): Promise<Trial> {
  const dataDir = `${folder}.trial`;
  const servers: LocalServer[] = [];
  refuseForeignPlace(dataDir);
  // What an interrupted trial left behind.
  rmSync(dataDir, { recursive: true, force: true });
  makeNewFolder(dataDir);
  try {
    const { started_at, doubt } = await restore({ dataDir, folder });
    const postgres = await startPostgres({ dataDir: join(dataDir, 'postgres') });
    servers.push(postgres);
    const clickhouse = await startClickHouse({ dataDir: join(dataDir, 'clickhouse'), entry: clickhouseEntry });
    servers.push(clickhouse);
    const to_ms = Date.parse(started_at);
    const { links, report } = await withStores(postgres.url, clickhouse.url, async (stores) => ({
      links: await linksIn(stores.db),
      report: await auditOfTrial(stores, to_ms),
    }));
    return { started_at, links, report, doubt };
  } finally {
    for (const server of servers) await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

interface TrialStores {
  readonly db: Postgres;
  readonly clickhouse: ClickHouse;
}

async function withStores<T>(
  postgresUrl: string,
  clickhouseUrl: string,
  work: (stores: TrialStores) => Promise<T>,
): Promise<T> {
  const db = new Postgres({ url: postgresUrl, name: 'trial', connectionsMax: 1 });
  const clickhouse = new ClickHouse({ url: clickhouseUrl, requestTimeoutMs: 600_000 });
  try {
    return await work({ db, clickhouse });
  } finally {
    await Promise.all([db.close(), clickhouse.close()]);
  }
}

async function linksIn(db: Postgres): Promise<number> {
  const [row] = await db.query<{ links: number }>('SELECT count(*)::integer AS links FROM links');
  return row?.links ?? 0;
}

const auditedMs = 7 * DAY_MS;

/**
 * Audits the last seven days, and all rows of the ledger. What the original had lost or duplicated itself is no fault of
 * the backup. @throws StartupError if rows are missing that its Postgres has in the ledger, or figures differ from them.
 */
export async function auditOfTrial({ db, clickhouse }: TrialStores, to_ms: number): Promise<AuditReport> {
  const from_ms = to_ms - auditedMs;
  const known = { lost: await lostFramesSince(db, from_ms - 2 * DAY_MS), ledger: await ledgerFrom(db) };
  const report = await audit(clickhouse, { from_ms, to_ms }, undefined, known);
  const missing = report.faults.filter(({ fault }) => fault === 'rows_missing');
  if (missing.length === 0 && report.rollup_difference === 0) return report;
  const rows = missing.reduce((sum, fault) => sum + fault.rows, 0);
  throw new StartupError(
    `The backup can be restored, but it is not whole: ${rows} stored rows are missing, rollup difference ${report.rollup_difference}.`,
  );
}
