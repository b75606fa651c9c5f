/**
 * What each process may do in Postgres: one role for each, in roles/<name>.sql. They are optional. Existing ones get
 * their privileges at the end of every migration; if a role does not exist, its process connects as the owner of the
 * schema.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#common/process/paths.ts';
import { Postgres, patientConnectMs } from '#common/stores/postgres.ts';

export const processRoles = [
  'signpost_api_process',
  'signpost_gateway',
  'signpost_ingest',
  'signpost_redirector',
  'signpost_webhooks',
] as const;
export type ProcessRoleName = (typeof processRoles)[number];

/** Of two concurrent migrations the second waits. The number is arbitrary. */
const lock = 'SELECT pg_advisory_xact_lock(5310541)';

/** Processes need no temporary tables. Not part of a dump, so it is repeated after every migration; only the owner of a database can. */
const closeTemporarySchemas = `
  DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()); END $$`;

/** Gives existing roles exactly the privileges of their files: any others from an earlier version are revoked. */
export async function grantProcessRoles(url: string): Promise<void> {
  const limits = { connectionsMax: 1, connectTimeoutMs: patientConnectMs, statementTimeoutMs: 60_000 };
  const db = new Postgres({ url, name: 'migrate', ...limits });
  try {
    await db.transaction(async (queries) => {
      await queries.execute(lock);
      await queries.execute(closeTemporarySchemas);
      const existing = await queries.query<{ rolname: string }>(
        'SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)',
        [processRoles],
      );
      for (const { rolname } of existing) {
        await queries.execute(`REVOKE ALL ON ALL TABLES IN SCHEMA public, ingest FROM ${rolname}`);
        await queries.execute(readFileSync(join(packageRoot(), 'pg-migrations', 'roles', `${rolname}.sql`), 'utf8'));
      }
      // In the transaction of the rights, for which processes wait.
      await queries.execute('INSERT INTO ready_migrations SELECT name FROM pg_migrations ON CONFLICT DO NOTHING');
    });
  } finally {
    await db.close();
  }
}
