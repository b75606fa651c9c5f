/**
 * Tries a backup out: restores it into a folder beside it, starts Postgres and ClickHouse from there, and audits what they
 * have. No process of Signpost runs, so nothing is sent to anyone.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { ClickHouse } from '#clickhouse/client.ts';
import { type AuditReport, audit } from '#clickhouse/queries/audit.ts';
import { DAY_MS } from '#common/durations.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { StartupError } from '#deploy/local/child.ts';
import { builtClickHouse, startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { startPostgres } from '#deploy/local/postgres.ts';
import { restore } from './restore.ts';

export interface Trial {
  readonly started_at: string;
  readonly links: number;
  readonly report: AuditReport;
}

/** @throws StartupError if the backup cannot be restored, a server does not start from it, or the audit finds a fault. */
export async function tryRestore(folder: string, clickhouseEntry = builtClickHouse()): Promise<Trial> {
  const dataDir = `${folder}.trial`;
  const servers: LocalServer[] = [];
  // What an interrupted trial left behind.
  rmSync(dataDir, { recursive: true, force: true });
  try {
    const { started_at } = await restore({ dataDir, folder });
    const postgres = await startPostgres({ dataDir: join(dataDir, 'postgres') });
    servers.push(postgres);
    const clickhouse = await startClickHouse({ dataDir: join(dataDir, 'clickhouse'), entry: clickhouseEntry });
    servers.push(clickhouse);
    const links = await linksIn(postgres.url);
    const report = await auditOf(clickhouse.url, Date.parse(started_at));
    if (report.faults.length === 0) return { started_at, links, report };
    throw new StartupError(
      `${folder} can be restored, but its statistics are not consistent: lost ${report.lost}, duplicated ${report.duplicated}, rollup difference ${report.rollup_difference}.`,
    );
  } finally {
    for (const server of servers) await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

async function linksIn(url: string): Promise<number> {
  const db = new Postgres({ url, name: 'trial', connectionsMax: 1 });
  try {
    const [row] = await db.query<{ links: number }>('SELECT count(*)::integer AS links FROM links');
    return row?.links ?? 0;
  } finally {
    await db.close();
  }
}

const auditedMs = 7 * DAY_MS;

async function auditOf(url: string, to_ms: number): Promise<AuditReport> {
  const clickhouse = new ClickHouse({ url, requestTimeoutMs: 600_000 });
  try {
    return await audit(clickhouse, { from_ms: to_ms - auditedMs, to_ms });
  } finally {
    await clickhouse.close();
  }
}
