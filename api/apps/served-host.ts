/**
 * Which hosts may get a certificate: a proxy checks this before it requests one, so that strangers cannot make it
 * request arbitrary names.
 */
import type { Postgres } from '#common/stores/postgres.ts';

const served = 'SELECT FROM apps WHERE host = $1 AND host_verified_at IS NOT NULL AND deleted_at IS NULL';

/** Whether an app is served on this host, case-insensitively. @throws PostgresUnavailable */
export async function isServedHost(db: Pick<Postgres, 'query'>, host: string): Promise<boolean> {
  if (host === '') return false;
  return (await db.query(served, [host.toLowerCase()], 'served_host')).length > 0;
}

/** The check of a proxy that issues certificates on demand: `/tls-allowed?domain=HOST`. */
export function certificateQuestion(db: Pick<Postgres, 'query'>) {
  return { '/tls-allowed': (query: URLSearchParams) => isServedHost(db, query.get('domain') ?? '') };
}
