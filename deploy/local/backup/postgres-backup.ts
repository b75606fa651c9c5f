/**
 * An online copy of the Postgres that npm start runs: its files, between pg_backup_start and pg_backup_stop, and the write-ahead
 * log in between. Source: PostgreSQL documentation, "Making a Base Backup Using the Low Level API". The packaged server comes without pg_basebackup.
 */
import { join } from 'node:path';
import { Postgres } from '#common/stores/postgres.ts';
import { StartupError } from '#deploy/local/child.ts';
import type { BackupWriter } from './backup-files.ts';

const statementTimeoutMs = 600_000;
/** The pool closes idle connections, but the backup belongs to the connection that started it. */
const keepAliveMs = 5_000;
/** An advisory lock number that is used only here. */
const lockNumber = 0x5167_6e70;

/**
 * Files that the documentation says to omit: the server recreates them, or they are useless without this run of the
 * server.
 */
const leftOut =
  /^(postmaster\.(pid|opts)|(pg_wal|pg_replslot|pg_dynshmem|pg_notify|pg_serial|pg_snapshots|pg_stat_tmp|pg_subtrans)\/.*)$|(^|\/)(pgsql_tmp[^/]*|pg_internal\.init)(\/|$)/;
const segmentName = /^[0-9A-F]{24}$/;

/**
 * @returns the time from which records can be replayed: earlier ones were stored by a version that did not number its batches.
 * @throws StartupError if another backup is running.
 */
export async function backUpPostgres(url: string, cluster: string, writer: BackupWriter): Promise<number> {
  const db = new Postgres({ url, name: 'backup', connectionsMax: 1, statementTimeoutMs });
  try {
    const [lock] = await db.query<{ is_ours: boolean }>('SELECT pg_try_advisory_lock($1) AS is_ours', [lockNumber]);
    if (lock?.is_ours !== true) throw new StartupError('Another backup is running.');
    // Keeps the write-ahead log until it is copied; it ends with the connection.
    await db.query("SELECT pg_create_physical_replication_slot('signpost_backup', true, true)");
    await db.query("SELECT pg_backup_start('signpost', true)");
    const keepAlive = setInterval(() => void db.query('SELECT').catch(() => undefined), keepAliveMs);
    try {
      await writer.addFolder(cluster, 'postgres/cluster', (path) => !leftOut.test(path));
    } finally {
      clearInterval(keepAlive);
    }
    const [end] = await db.query<{ labelfile: string; from: string; to: string }>(
      `SELECT labelfile, substring(labelfile FROM 'file ([0-9A-F]{24})') AS from, pg_walfile_name(lsn) AS to
       FROM pg_backup_stop(false)`,
    );
    if (end === undefined) throw new StartupError('Postgres did not finish the backup.');
    await writer.addText(end.labelfile, 'postgres/cluster/backup_label');
    const [numbering] = await db.query<{ since_ms: number }>('SELECT since_ms FROM ingest.numbering');
    const isNeeded = (name: string) => segmentName.test(name) && name >= end.from && name <= end.to;
    await writer.addFolder(join(cluster, 'pg_wal'), 'postgres/cluster/pg_wal', isNeeded);
    return numbering?.since_ms ?? 0;
  } finally {
    await db.close();
  }
}
